"""`dbt export`: the files of a dbt project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.options import FormatOption, LogFormatOption, ProjectOption, SelectOption
from cdc_views.cli.printing import check_format, print_exported

dbt = typer.Typer(help="Models, tests and docs for a dbt project.", no_args_is_help=True, rich_markup_mode=None)


@dbt.callback()
def _group() -> None:
    """A group, although it has one command yet."""


@dbt.command("export")
def export(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The dbt project to write into.")] = Path("."),
    project: ProjectOption = Path("cdc_views.yml"),
    select: SelectOption = None,
    format: FormatOption = "table",
    log_format: LogFormatOption = "text",
) -> None:
    """Write sources, models, tests, docs and exposures, and the macros they need, into a dbt project."""
    from cdc_views.api import Project
    from cdc_views.export.dbt import export as export_tables

    check_format(format)
    loaded = Project.load(project)
    done = export_tables(loaded.config.name, loaded.select(select or ()), out)
    print_exported(done, format=format)
    if not (out / "dbt_project.yml").is_file():
        log.warning(f"{out} has no dbt_project.yml yet; docs/dbt.md shows one, packages.yml and profiles.yml")
