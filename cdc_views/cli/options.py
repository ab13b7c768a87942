"""The options commands share, as annotations; each command lists those it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.errors import UsageError


def _use_log_format(name: str) -> str:
    log.use(name)
    return name


@dataclass
class Asked:
    """The project file that the command at hand was given: where to look for damage once it failed."""

    project: Path | None = None


asked = Asked()


def _note_project(file: Path) -> Path:
    asked.project = file
    return file


ProjectOption = Annotated[Path, typer.Option("--project", metavar="FILE", help="The project file.", callback=_note_project)]
SelectOption = Annotated[list[str] | None, typer.Option("--select", metavar="TABLE", help="Only this table; may be repeated.")]
FormatOption = Annotated[str, typer.Option("--format", metavar="table|json|jsonl|csv", help="How rows are printed.")]
LogFormatOption = Annotated[
    str,
    typer.Option(
        "--log-format", metavar="text|json", help="How standard error is written.", callback=_use_log_format, is_eager=True
    ),
]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="keyspace.table, as in the project file.")]
EngineOption = Annotated[
    str | None, typer.Option("--engine", metavar="ENGINE", help="duckdb, spark or bigquery; default: the project's.")
]
StrategyOption = Annotated[
    str | None,
    typer.Option("--strategy", metavar="STRATEGY", help="auto, aggregate, window or self_join; default: the view's."),
]
AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="INSTANT", help="The clock cells expire by: epoch seconds or ISO 8601; default: now."),
]


def check_selected(table: str, select: list[str] | None) -> None:
    """Refuse a command for one table when `--select` names only others."""
    if select and table not in select:
        raise UsageError(f"{table} is not among the tables of --select ({', '.join(select)}); leave --select out")
