"""`sqlmesh export`: the files of a SQLMesh project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.printing import print_exported
from cdc_views.cli.shared import Request, shared

sqlmesh = typer.Typer(help="Models for a SQLMesh project.", no_args_is_help=True, rich_markup_mode=None)


@sqlmesh.callback()
def _group() -> None:
    """A group, although it has one command yet."""


@sqlmesh.command("export")
@shared("project", "select", "format")
def export(
    asked: Request,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The SQLMesh project to write into.")] = Path("."),
) -> None:
    """Write a model per table, and config.yaml where there is none, into a SQLMesh project on DuckDB."""
    from cdc_views.export.sqlmesh import export as export_tables

    print_exported(export_tables(asked.tables, out), format=asked.format)
