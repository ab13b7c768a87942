"""A static site of one run: what landed, what the view shows, whether to trust it, and why (docs/how-to/report.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.errors import UsageError
from cdc_views.pages.report.collecting import RECENT, collect
from cdc_views.pages.report.model import RunReport
from cdc_views.pages.report.site import pages_of, write_site
from cdc_views.quality.checks import read_results
from cdc_views.rules.instants import Instant, epoch_seconds

if TYPE_CHECKING:
    from cdc_views.operations.context import ProjectContext, TableContext

__all__ = ["RECENT", "RunReport", "pages_of", "report_of", "write_site"]


def report_of(
    project: ProjectContext,
    *,
    tables: Sequence[TableContext] = (),
    now: Instant | None = None,
    as_of: Instant | None = None,
    engine: str | None = None,
    dialects: Sequence[str] = (),
    recent: int = RECENT,
    with_values: bool = False,
    results: Path | None = None,
) -> RunReport:
    """Return the report of a project; `write_site` writes it as pages.

    Args:
        project: The project.
        tables: The tables to report; default: all.
        now: The instant that ages end at; default: the clock.
        as_of: The clock of rule C4; default: `now`.
        engine: Where tests and the view run; default: the project's engine.
        dialects: The dialects of the SQL to show; default: the one of the project's engine.
        recent: How many of the most recently written rows of each table to explain.
        with_values: Include keys and values of rows.
        results: A file of results from `validate --json`; default: run the data tests.

    Raises:
        UsageError: An unknown engine or dialect, an invalid instant, or an invalid file of results.
        EngineError: The engine failed, or a table cannot be read.
    """
    project.check_raw_tables_are_local()
    if recent < 0:
        raise UsageError(f"recent is {recent}; a number of rows, 0 or more, was expected")
    own, clock = project.config.engine, epoch_seconds(datetime.now(timezone.utc) if now is None else now, option="now")
    at, tests_from = clock if as_of is None else epoch_seconds(as_of), "" if results is None else results.name
    ours, where = version("cdc-views"), own if engine is None else engine
    run = RunReport(project.config.name, ours, where, clock, at, tests_from, has_values=with_values)
    shown, known = tuple(dict.fromkeys(dialects)) or (own,), None if results is None else read_results(results)
    found = [collect(table, run, dialects=shown, recent=recent, results=known) for table in tables or project.tables]
    return replace(run, tables=tuple(found))
