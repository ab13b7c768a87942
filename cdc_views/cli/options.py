"""Options that several commands share, as annotations; `shared` has the options of nearly all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.log import log


@dataclass
class RunningCommand:
    """The project file of the running command, to look for damage after a failure; None before it is known."""

    project_file: Path | None = None


running = RunningCommand()


def _note_project(file: Path) -> Path:
    running.project_file = file
    return file


def _use_log_format(name: str) -> str:
    log.use(name)
    return name


ProjectOption = Annotated[Path, typer.Option("--project", metavar="FILE", help="The project file.", callback=_note_project)]
LogFormatOption = Annotated[
    str, typer.Option("--log-format", metavar="text|json", help="The format of the log.", callback=_use_log_format, is_eager=True)
]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="keyspace.table, as in the project file.")]
EngineOption = Annotated[
    str | None, typer.Option("--engine", metavar="ENGINE", help="duckdb, spark or bigquery; default: the project's.")
]
StrategyOption = Annotated[
    str | None, typer.Option("--strategy", metavar="STRATEGY", help="auto, aggregate, window or self_join; default: the view's.")
]
AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", metavar="INSTANT", help="The clock cells expire by: epoch seconds or ISO 8601; default: now."),
]
