"""Producers that the interface promises and that are not there yet: they say so and exit 2."""

from __future__ import annotations

from collections.abc import Callable

import typer

from cdc_views.errors import UnsupportedError

_LATER = ("mysql",)


def add_to(produce: typer.Typer) -> None:
    """Add the sources to `produce`; each takes any arguments."""
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    for source in _LATER:
        produce.command(source, help="Not there yet.", context_settings=settings)(_refusal(source))


def _refusal(source: str) -> Callable[[typer.Context], None]:
    def refuse(context: typer.Context) -> None:
        raise UnsupportedError(f"`produce {source}` is not there yet", remedy="`land` appends event files, or standard input")

    return refuse
