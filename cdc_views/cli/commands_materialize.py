"""`materialize`: brings state up to date, once or by the tables' cron expressions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_views.cli.log import exit_code, log, log_error, warn_of_late, warn_of_quarantine
from cdc_views.cli.printing import as_json_rows, fields_of
from cdc_views.cli.shared import EngineOption, Request, shared
from cdc_views.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from threading import Event

    from cdc_views.operations.scheduling import Completed, Failed, Happening, Job, Skipped, Started
    from cdc_views.state import Materialization

_COLUMNS = ("table", "is_new", "raw_version", "facts", "late", "outcome")
_SCHEDULED_COLUMNS = ("table", "tick", *_COLUMNS[1:])
_TriggerOption = Annotated[
    str | None,
    typer.Option(metavar="TRIGGER", help='Follow raw by Spark\'s streams: available-now, or an interval as "30 seconds".'),
]


@shared("project", "select", "format")
def materialize(
    asked: Request,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run each table once; this is the default.")] = False,
    schedule: Annotated[bool, typer.Option("--schedule", help="Keep running; each table by its cron expression.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Rebuild state from all of raw, not only from new facts.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what a run would read; change nothing (bigquery).")] = False,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for another run of a table; default: not.")
    ] = 0,
    trigger: _TriggerOption = None,
    engine: EngineOption = None,
) -> None:
    """Bring state up to date with new facts; a table that fails does not stop the others.

    Exit code 1 if facts landed after their table's lateness horizon; `cdc-views late` lists them, in quarantine.
    """
    from cdc_views.operations.scheduling import job_of

    if schedule and (once or full or wait):
        option = "--once" if once else "--full" if full else "--wait"
        raise UsageError(f"--schedule and {option} do not go together; run `cdc-views materialize {option}` by itself first")
    if dry_run:
        _plan(asked, full=full, engine=engine, others=bool(schedule or wait or trigger))
        return
    if trigger is not None:
        if schedule or once or full or wait:
            raise UsageError("--trigger does not go together with --schedule, --once, --full or --wait; leave those out")
        _follow(asked, trigger=trigger, engine=engine)
        return
    jobs = [job_of(table, engine=engine) for table in asked.tables]
    if schedule:
        _keep_running(asked, _scheduled(jobs, asked.project_file))
        return
    _run_once(asked, jobs, full=full, wait=wait)


def _run_once(asked: Request, jobs: Iterable[Job], *, full: bool, wait: float) -> None:
    records, codes = [], []
    is_whole = True
    for job in jobs:
        try:
            outcome = job.run(full=full, wait=wait)
        except Exception as error:
            log_error(error, prefix="" if job.name in str(error) else f"{job.name}: ", table=job.name)
            codes.append(exit_code(error))
            is_whole = False
            continue
        log.info(f"{job.name}: {outcome.line()}", table=job.name)
        warn_of_late(job.name, outcome.late)
        if outcome.late:
            codes.append(CheckFailedError.exit_code)
        records.append({"table": job.name, **_record(outcome)})
    asked.print(_COLUMNS, records)
    if is_whole:  # a failure may come from counting the quarantined rows itself
        warn_of_quarantine(*asked.tables)
    if codes:
        raise typer.Exit(max(codes))


def _plan(asked: Request, *, full: bool, engine: str | None, others: bool) -> None:
    from cdc_views.operations.materializing import materialize_remote

    if others:
        raise UsageError("--dry-run goes with none of --schedule, --wait and --trigger; leave those out")
    plans = ((table, materialize_remote(table, full=full, engine=engine, dry_run=True)) for table in asked.tables)
    asked.print(_COLUMNS, ({"table": table.name, **_record(plan)} for table, plan in plans))


def _record(outcome: Materialization) -> dict[str, object]:
    return {**fields_of(outcome, _COLUMNS[1:-1]), "outcome": outcome.line()}


def _scheduled(jobs: list[Job], project: Path) -> list[Job]:
    scheduled = [job for job in jobs if job.cron is not None]
    if not scheduled:
        names = ", ".join(job.name for job in jobs)
        advice = 'give one `materialize: {schedule: "*/15 * * * *"}`, or run `cdc-views materialize --once`'
        raise UsageError(f"{project}: no table has a schedule (of {names}); {advice}")
    for job in jobs:
        if job.cron is None:
            log.warning(f"{job.name}: has no schedule and is not run", table=job.name)
        else:
            log.info(f"{job.name}: runs by {job.cron.expression}, in UTC", table=job.name, schedule=job.cron.expression)
    return scheduled


def _keep_running(asked: Request, jobs: list[Job]) -> None:
    from cdc_views.operations.scheduling import SystemClock, run_schedule

    def work(stop: Event) -> None:
        completed = _completed(run_schedule(jobs, clock=SystemClock(stop), stop=stop))
        if asked.format == "table":  # a table's column widths would have to wait for the last row
            for run in completed:
                print(f"{run.table}: {_instant(run.tick)}: {run.outcome.line()}", flush=True)
        else:
            records = ({"table": run.table, "tick": _instant(run.tick), **_record(run.outcome)} for run in completed)
            asked.print_json(_SCHEDULED_COLUMNS, (as_json_rows([record])[0] for record in records))

    _run_until_stopped(work)
    log.info("stopped")


def _follow(asked: Request, *, trigger: str, engine: str | None) -> None:
    from cdc_views.operations.following import follow_tables

    def print_run(name: str, outcome: Materialization) -> None:
        if asked.format == "table":
            print(f"{name}: {outcome.line()}", flush=True)
        else:
            asked.print(_COLUMNS, [{"table": name, **_record(outcome)}])
            sys.stdout.flush()

    if asked.format in ("json", "csv"):
        raise UsageError(f"--trigger prints rows as they come, which {asked.format} cannot; use --format table or jsonl")
    _run_until_stopped(lambda stop: follow_tables(asked.tables, trigger=trigger, engine=engine, stop=stop, on_run=print_run))


def _completed(happenings: Iterable[Happening]) -> Iterator[Completed]:
    from cdc_views.operations.scheduling import Completed

    for happening in happenings:
        if isinstance(happening, Completed):
            warn_of_late(happening.table, happening.outcome.late)
            yield happening
            sys.stdout.flush()
        else:
            _log(happening)


def _log(happening: Started | Failed | Skipped) -> None:
    from cdc_views.operations.scheduling import Failed, Started

    name = happening.table
    if isinstance(happening, Started):
        missed = "" if happening.since == happening.tick else f", also for those since {_instant(happening.since)}"
        log.info(f"{name}: run of {_instant(happening.tick)}{missed}", table=name, tick=_instant(happening.tick))
    elif isinstance(happening, Failed):
        when = _instant(happening.tick)
        log_error(happening.error, prefix=f"{name}: run of {when} failed and is tried again at the next: ", table=name, tick=when)
    else:
        first, last = _instant(happening.first), _instant(happening.last)
        span = first if first == last else f"{first} to {last}"
        log.warning(f"{name}: run of {span} skipped: {happening.reason}", table=name, first=first, last=last)


def _instant(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%MZ")


def _run_until_stopped(work: Callable[[Event], None]) -> None:
    from cdc_views.operations.scheduling import run_until_stopped

    announced = "stopping after the run at hand; a second signal ends it at once, and what was committed stays"
    run_until_stopped(work, on_stop=lambda: log.info(announced))
