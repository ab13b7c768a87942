"""`sqlmesh export`: the files of a SQLMesh project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.options import FormatOption, LogFormatOption, ProjectOption, SelectOption
from cdc_views.cli.printing import check_format, print_exported

sqlmesh = typer.Typer(help="Models for a SQLMesh project.", no_args_is_help=True, rich_markup_mode=None)


@sqlmesh.callback()
def _group() -> None:
    """A group, although it has one command yet."""


@sqlmesh.command("export")
def export(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The SQLMesh project to write into.")] = Path("."),
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Write a model per table, and config.yaml where there is none, into a SQLMesh project on DuckDB."""
    from cdc_views.api import Project
    from cdc_views.export.sqlmesh import export as export_tables

    check_format(format)
    print_exported(export_tables(Project.load(project).select(select or ()), out), format=format)
