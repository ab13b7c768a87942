"""A static site of one run: what has landed, what it came to, whether it can be trusted, and why (docs/report.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.errors import UsageError
from cdc_views.quality.checks import read_results
from cdc_views.report.collecting import RECENT, collect
from cdc_views.report.model import RunReport
from cdc_views.report.site import pages_of, write_site
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
    """Return the report of a project; `write_site` prints it.

    Args:
        project: The project.
        tables: Those to tell of; default: all.
        now: What ages are counted to; default: the clock.
        as_of: The clock of rule C4; default: `now`.
        engine: Where tests and the view run; default: the project's engine.
        dialects: Whose SQL to show; default: that of the project's engine.
        recent: How many of the rows written most recently to explain, of each table.
        with_values: Tell keys and values of rows, too.
        results: A file of results to tell, which `validate --json` wrote; default: run the data tests.

    Raises:
        UsageError: An unknown engine or dialect, an instant that is none, a file of results that is none.
        EngineError: The engine failed, or a table cannot be read.
    """
    if recent < 0:
        raise UsageError(f"recent is {recent}; a number of rows, 0 or more, was expected")
    own, clock = project.config.engine, epoch_seconds(datetime.now(timezone.utc) if now is None else now, option="now")
    at, tests_from = clock if as_of is None else epoch_seconds(as_of), "" if results is None else results.name
    ours, where = version("cdc-views"), own if engine is None else engine
    run = RunReport(project.config.name, ours, where, clock, at, tests_from, has_values=with_values)
    shown, known = tuple(dict.fromkeys(dialects)) or (own,), None if results is None else read_results(results)
    found = [collect(table, run, dialects=shown, recent=recent, results=known) for table in tables or project.tables]
    return replace(run, tables=tuple(found))
