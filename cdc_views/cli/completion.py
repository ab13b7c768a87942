"""Shell completion: `cdc-views completion bash`, and the names that it offers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.errors import UsageError, choose_one

if TYPE_CHECKING:
    from cdc_views.api import Project

SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "cdc-views"
_ASKING = "_CDC_VIEWS_COMPLETE"
"""The variable by which a shell asks for names."""


def is_asked() -> bool:
    """Whether a shell asks this process for names, instead of running a command."""
    return _ASKING in os.environ


def prepare() -> None:
    """Let typer answer the shells."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()


def completion(shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), help="The shell.")]) -> None:
    """Print a shell's completion script.

    It completes commands, options, and names of tables and columns.

    Add `eval "$(cdc-views completion bash)"` to ~/.bashrc; for fish, `cdc-views completion fish | source` to its configuration.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in SHELLS:
        raise UsageError(f"there is no completion for {shell!r}; {choose_one(shell, SHELLS)}")
    print(get_completion_script(prog_name=_PROGRAM, complete_var=_ASKING, shell=shell))


def one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a completer of fixed names, which are asked for when a shell does."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def table_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the tables of the project that begin so; without a project that can be read, none."""
    found = _project(context)
    return [] if found is None else [table.name for table in found if table.name.startswith(incomplete)]


def column_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the columns that begin so, after what stands before a comma; of the command's table, or of all."""
    before, comma, started = incomplete.rpartition(",")
    found, named = _project(context), context.params.get("table")
    tables = () if found is None else [table for table in found if named is None or table.is_called(str(named))]
    return [f"{before}{comma}{name}" for table in tables for name in _columns(table) if name.startswith(started)]


def engine_names() -> Iterable[str]:
    """Return the names of the engines."""
    from cdc_views.engines.plugin import engine_names as known

    return known()


def strategy_names() -> Iterable[str]:
    """Return the names of the strategies."""
    from cdc_views.model.strategy import Strategy

    return [member.value for member in Strategy]


def _columns(table: Any) -> list[str]:
    try:
        return [column.name for column in table.schema.columns]
    except Exception:  # a shell that completes must not print an error
        return []


def _project(context: typer.Context) -> Project | None:
    from cdc_views.api import Project

    try:
        return Project.load(Path(context.params.get("project") or "cdc_views.yml"))
    except Exception:  # as above
        return None
