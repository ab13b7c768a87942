"""`report`: a static site of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.shared import AsOfOption, EngineOption, Request, shared
from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views.table import Table

_COLUMNS = ("table", "page", "passed", "failed", "warnings", "skipped")


@shared("project", "select", "format")
def report(
    asked: Request,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write index.html and a page per table.")],
    engine: EngineOption = None,
    as_of: AsOfOption = None,
    dialect: Annotated[
        list[str] | None, typer.Option(metavar="DIALECT", help="SQL to show, repeatable; default: the engine's.")
    ] = None,
    recent: Annotated[int, typer.Option(min=0, metavar="N", help="Explain the N rows written last, per table.")] = 5,
    with_values: Annotated[bool, typer.Option("--with-values", help="Include keys and values of rows.")] = False,
    results: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Use results of `validate --json`; default: run the tests.")
    ] = None,
) -> None:
    """Write a site: landings, tests, fidelity, cost, and a page per table with SQL, lineage and recent rows."""
    from cdc_views.report import report_of, write_site
    from cdc_views.report.wording import counted

    tables = asked.tables
    if out.is_file():
        raise UsageError(f"--out {out}: is a file; name a folder")
    report_with = partial(report_of, asked.project, tables=tables, as_of=as_of, engine=engine, dialects=dialect or ())
    found = report_with(recent=recent, with_values=with_values, results=results)
    _check_something_landed(tables)
    index = write_site(found, out)
    records = [{"table": table.name, "page": table.page, **asdict(table.results)} for table in found.tables]
    asked.print(_COLUMNS, records)
    failed = found.failed()
    if failed:
        (table, check), tests = failed[0], counted(len(failed), "test")
        log.warning(f"{tests} did not hold, the first: {table.name}: {check.name}; the report lists them")
    log.info(f"wrote {index}")


def _check_something_landed(tables: Sequence[Table]) -> None:
    """Refuse a report without any landed event, as `validate` does."""
    from cdc_views.operations.ingest import check_landed

    missing = []
    for table in tables:
        if table.project.is_remote:
            return
        try:
            check_landed(table)
            return
        except UsageError as error:
            missing.append(error)
    if missing:
        raise missing[0]
