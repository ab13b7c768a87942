"""`verify`: proves a view against the live source, once or again and again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import log
from cdc_views.cli.printing import ROWS
from cdc_views.cli.run_history import RunClock
from cdc_views.cli.shared import EngineOption, Request, TableArgument, shared
from cdc_views.cli.textfile import TableGauges
from cdc_views.errors import CdcViewsError, TransientError, UsageError
from cdc_views.rules.instants import span_seconds

if TYPE_CHECKING:
    from cdc_views.operations.verifying.findings import Verification
    from cdc_views.operations.verifying.load import Bounds
    from cdc_views.operations.verifying.record import EqualRun
    from cdc_views.table import Table

_MOST_TOLD = 20
"""Findings of one run in a table for people; where nothing lands, every row that is written differs."""
PREFIX = "cdc_views_verify_"
HELP = {
    "last_run_timestamp_seconds": "When the last run ended",
    "verified_through_timestamp_seconds": "When the last run that found source and view equal began",
    "lost_cells": "Cells that the last run found lost",
    "late_cells": "Cells that the last run found late",
    "compared_rows": "Rows that the last run compared",
    "source_rows": "Rows that the last run read from the source",
    "source_queries": "Queries that the last run sent to the source",
    "run_seconds": "How long the last run took",
}


@shared("project", "select", "format")
def verify(
    asked: Request,
    *,
    table: TableArgument,
    source: Annotated[
        str | None, typer.Option(metavar="URL", help="The running source; default: the table's `source` in the project file.")
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="POSITION", help="Wait until this has landed: an LSN, a GTID; Cassandra: an instant.")
    ] = None,
    sample: Annotated[int, typer.Option(min=0, metavar="N", help="Compare the next N rows each run; 0: all.")] = 10_000,
    rate: Annotated[float, typer.Option(min=0, metavar="ROWS", help="Read at most ROWS per second; 0: no limit.")] = 5_000,
    chunk: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of one query to the source.")] = 1_000,
    time_limit: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Start no query after this time; 0: no limit.")
    ] = 0.0,
    wait: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for changes to land.")] = 60.0,
    every: Annotated[str | None, typer.Option(metavar="SPAN", help="Run again and again, as 5m, until a signal.")] = None,
    metrics: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a .prom file after each run.")] = None,
    engine: EngineOption = None,
) -> None:
    """Compare the view with the live source, cell by cell.

    Differing rows are read again, which tells loss from lag. Exit code 1 on a loss.
    """
    from cdc_views.operations.verifying.load import Bounds

    target, bounds = asked.table(table), Bounds(sample, rate, chunk, time_limit, wait)
    run = _Runs(asked, target, source, at, bounds, engine, VerifyGauges(target.name, metrics))
    if every is None:
        if run.once().losses:
            raise typer.Exit(1)
        return
    from cdc_views.operations.scheduling import run_until_stopped

    log.is_timed = True
    seconds = _seconds(every)
    run_until_stopped(lambda stop: run.again(stop, seconds), on_stop=lambda: log.info("stopping after this run"))
    if run.losses:
        raise typer.Exit(1)


def _seconds(span: str) -> int:
    seconds = span_seconds(span, option="--every", example="5m", digits=5)
    if seconds == 0:
        raise UsageError(f"--every is {span!r}; a span longer than nothing was expected, as 5m")
    return seconds


@dataclass
class _Runs:
    """The runs of one command."""

    asked: Request
    table: Table
    source: str | None
    at: str | None
    bounds: Bounds
    engine: str | None
    gauges: VerifyGauges
    losses: int = 0

    def __post_init__(self) -> None:
        from cdc_views.operations.verifying.run import source_of

        source_of(self.table, self.source)  # reports what is wrong with it before anything begins

    def once(self) -> Verification:
        from cdc_views.operations.verifying.record import record_of
        from cdc_views.operations.verifying.run import verify_table

        now, bounds, clock = datetime.now(timezone.utc), self.bounds, RunClock("verify")
        which = f"{bounds.sample:,} rows" if bounds.sample else "all rows"
        pace = f", at most {bounds.rate:,g} a second" if bounds.rate else ""
        log.info(f"{self.table.name}: comparing {which} with the source{pace}")
        try:
            done = verify_table(self.table, now=now, source=self.source, at=self.at, bounds=self.bounds, engine=self.engine)
        except CdcViewsError as error:
            clock.keep_failure(self.asked.project, self.table.name, error, verdict="failed")
            raise
        self._print(done)
        (log.error if done.losses else log.info)(done.line(), table=done.table, verdict=done.verdict)
        figures = {"verdict": done.verdict, "losses": done.losses, "lags": done.lags, "compared": done.compared}
        clock.keep(self.asked.project, {done.table: figures})
        self.losses += done.losses
        self.gauges.publish(done, record_of(self.table).proof)
        return done

    def _print(self, done: Verification) -> None:
        from cdc_views.operations.verifying.findings import COLUMNS, CellVerdict

        findings = sorted(done.findings, key=lambda found: found.outcome is not CellVerdict.LOSS)
        most = _MOST_TOLD if self.asked.format == "table" else len(findings)
        if findings or not self.asked.is_for_people:
            self.asked.print_json(COLUMNS, [found.json_row(self.table.schema) for found in findings[:most]], ROWS)
        if len(findings) > most:
            log.info(f"{most} of {len(findings):,} differing cells are shown; `--format jsonl` prints all")

    def again(self, stop: Event, seconds: int) -> None:
        while not stop.is_set():
            try:
                self.once()
            except TransientError as error:
                log.warning(f"{error}; the next run is in {seconds} s")
            stop.wait(seconds)


@dataclass
class VerifyGauges:
    """The last run, as metrics."""

    table: str
    file: Path | None
    _gauges: TableGauges = field(init=False)

    def __post_init__(self) -> None:
        self._gauges = TableGauges(PREFIX, HELP, self.file).begin("--metrics", {self.table})

    def publish(self, done: Verification, proof: EqualRun | None) -> None:
        """Write the file anew; `proof` is the newest run without a difference."""
        found: dict[str, float] = {
            "lost_cells": done.losses,
            "late_cells": done.lags,
            "compared_rows": done.compared,
            "source_rows": done.read,
            "source_queries": done.queries,
            "run_seconds": done.seconds,
            "last_run_timestamp_seconds": datetime.now(timezone.utc).timestamp(),
        }
        if proof is not None:
            found["verified_through_timestamp_seconds"] = datetime.fromisoformat(proof.instant).timestamp()
        self._gauges.values |= {(name, self.table): value for name, value in found.items()}
        self._gauges.publish()
