"""`dbt export`: the files of a dbt project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.printing import print_exported
from cdc_views.cli.shared import Request, shared

dbt = typer.Typer(help="Models, tests and docs for a dbt project.", no_args_is_help=True, rich_markup_mode=None)


@dbt.callback()
def _group() -> None:
    """A group, although it has one command yet."""


@dbt.command("export")
@shared("project", "select", "format")
def export(
    asked: Request,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The dbt project to write into.")] = Path("."),
) -> None:
    """Write sources, models, tests, docs and exposures, and the macros they need, into a dbt project."""
    from cdc_views.export.dbt import export as export_tables

    done = export_tables(asked.project.config.name, asked.tables, out)
    print_exported(done, format=asked.format)
    if not (out / "dbt_project.yml").is_file():
        log.warning(f"{out} has no dbt_project.yml yet; docs/dbt.md shows one, packages.yml and profiles.yml")
