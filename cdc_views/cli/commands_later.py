"""Commands that the interface promises and that are not there yet: they say so and exit 2."""

from __future__ import annotations

from collections.abc import Callable

import typer

from cdc_views.errors import UnsupportedError

_LATER = {
    "produce": ("run a producer", "`land` appends event files, or standard input"),
}


def add_to(app: typer.Typer) -> None:
    """Add the commands to `app`; each takes any arguments."""
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    for name, (purpose, instead) in _LATER.items():
        app.command(name, help=f"Not there yet: {purpose}.", context_settings=settings)(_refusal(name, purpose, instead))


def _refusal(name: str, purpose: str, instead: str) -> Callable[[typer.Context], None]:
    def refuse(context: typer.Context) -> None:
        raise UnsupportedError(f"`{name}`, which would {purpose}, is not there yet", remedy=instead)

    return refuse
