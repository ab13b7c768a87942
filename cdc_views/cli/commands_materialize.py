"""`materialize`: brings state up to date, once or by the tables' cron expressions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_views.cli.log import exit_code, log, log_error, warn_of_late, warn_of_quarantine
from cdc_views.cli.printing import as_json_rows, fields_of
from cdc_views.cli.run_history import KeepingClock, RunClock, Runs, failed, figures_of_materialization
from cdc_views.cli.shared import EngineOption, Request, shared
from cdc_views.errors import CheckFailedError, UsageError

if TYPE_CHECKING:
    from threading import Event

    from cdc_views.cli.run_metrics import RunMetrics
    from cdc_views.operations.scheduling import Completed, Failed, Happening, Job, Skipped, Started
    from cdc_views.state import Materialization

_COLUMNS = ("table", "is_new", "raw_version", "facts", "late", "outcome")
_SCHEDULED_COLUMNS = ("table", "tick", *_COLUMNS[1:])
"""People read each `outcome` in the log, as it comes; what is printed for them does not say it again."""
_TriggerOption = Annotated[
    str | None,
    typer.Option(metavar="TRIGGER", help='Follow raw by Spark\'s streams: available-now, or an interval as "30 seconds".'),
]
_WaitOption = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for another run of a table; default: not.")
]
_MetricsOption = Annotated[
    Path | None,
    typer.Option("--metrics", metavar="FILE", help="Write metrics for node_exporter there, as *.prom, after each run."),
]
_ListenOption = Annotated[
    str | None,
    typer.Option(
        "--listen", metavar="HOST:PORT", help="With --schedule or --trigger: serve /metrics there; port 0: any free one."
    ),
]


@shared("project", "select", "format")
def materialize(
    asked: Request,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run each table once; this is the default.")] = False,
    schedule: Annotated[bool, typer.Option("--schedule", help="Keep running; each table by its cron expression.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Rebuild state from all of raw, not only from new facts.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what a run would read; change nothing (bigquery).")] = False,
    wait: _WaitOption = 0,
    trigger: _TriggerOption = None,
    metrics: _MetricsOption = None,
    listen: _ListenOption = None,
    engine: EngineOption = None,
) -> None:
    """Bring the compacted state of each table up to date.

    A table that fails does not stop the others. Exit code 1 if changes landed too late to be merged; `late` lists them.
    """
    from cdc_views.cli.run_metrics import watched_runs
    from cdc_views.operations.scheduling import job_of

    if dry_run:
        _plan(asked, full=full, engine=engine, others=bool(schedule or wait or trigger or metrics or listen))
        return
    once_only = {"--once": once, "--full": full, "--wait": bool(wait)}
    _check_goes_together(
        [name for name, is_given in once_only.items() if is_given], schedule=schedule, trigger=trigger, listen=listen
    )
    log.is_timed = schedule or trigger is not None
    # a stream runs a table only when something has landed, so nothing is due then
    jobs = [job_of(table, engine=engine) for table in (() if trigger else asked.tables)]
    if schedule:
        jobs = _scheduled(jobs, asked.project_file)
    names = [table.name for table in asked.project.tables]
    with watched_runs(jobs, tables=names, file=metrics, listen=listen) as runs:
        if trigger is not None:
            _follow(asked, runs, trigger=trigger, engine=engine)
        elif schedule:
            _keep_running(asked, runs)
        else:
            _run_once(asked, runs, full=full, wait=wait)


def _check_goes_together(once_only: Sequence[str], *, schedule: bool, trigger: str | None, listen: str | None) -> None:
    if schedule and once_only:
        option = once_only[0]
        raise UsageError(f"--schedule and {option} do not go together; run `cdc-views materialize {option}` by itself first")
    if trigger is not None and (schedule or once_only):
        raise UsageError("--trigger does not go together with --schedule, --once, --full or --wait; leave those out")
    if listen is not None and not schedule and trigger is None:
        raise UsageError("--listen goes with --schedule or --trigger; a run that ends writes its metrics to --metrics FILE")


def _run_once(asked: Request, runs: RunMetrics, *, full: bool, wait: float) -> None:
    records, codes = [], []
    is_whole, clock, ran = True, RunClock("materialize"), dict[str, dict[str, Any]]()
    for job in runs.jobs:
        runs.begin(job.name)
        try:
            outcome = job.run(full=full, wait=wait)
        except Exception as error:
            runs.fail(job.name)
            log_error(error, prefix="" if job.name in str(error) else f"{job.name}: ", table=job.name)
            codes.append(exit_code(error))
            ran[job.name] = failed(error)
            is_whole = False
            continue
        seconds = runs.succeed(job.name, outcome)
        log.info(f"{job.name}: {outcome.line()}", **_facts(job.name, outcome, seconds))
        warn_of_late(job.name, outcome.late)
        if outcome.late:
            codes.append(CheckFailedError.exit_code)
        records.append({"table": job.name, **_record(outcome)})
        ran[job.name] = figures_of_materialization(outcome, seconds)
    clock.keep(asked.project, ran)
    asked.print(_COLUMNS[:-1] if asked.is_for_people else _COLUMNS, records)
    if is_whole:  # a failure may come from counting the quarantined rows itself
        warn_of_quarantine(*asked.tables)
    if codes:
        raise typer.Exit(max(codes))


def _facts(table: str, outcome: Materialization, seconds: float | None) -> dict[str, object]:
    """Return what a line of the log has of a run, beside its message."""
    known = {"table": table, "version": outcome.raw_version, "rows": outcome.facts, "late": outcome.late}
    return {**known, "is_new": outcome.is_new} | ({} if seconds is None else {"seconds": round(seconds, 3)})


def _plan(asked: Request, *, full: bool, engine: str | None, others: bool) -> None:
    from cdc_views.operations.materializing import materialize_remote

    if others:
        raise UsageError("--dry-run goes with none of --schedule, --wait, --trigger, --metrics and --listen; leave those out")
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


def _keep_running(asked: Request, runs: RunMetrics) -> None:
    from cdc_views.operations.scheduling import SystemClock, run_schedule

    history = Runs("materialize", asked.project)

    def work(stop: Event) -> None:
        clock = KeepingClock(SystemClock(stop), history)
        completed = _completed(run_schedule(runs.jobs, clock=clock, stop=stop), runs, history)
        records = ({"table": run.table, "tick": _instant(run.tick), **_record(run.outcome)} for run in completed)
        if asked.is_for_people:  # a table's column widths would have to wait for the last row
            for _ in records:
                pass
        else:
            asked.print_json(_SCHEDULED_COLUMNS, (as_json_rows([record])[0] for record in records))

    try:
        _run_until_stopped(work)
    finally:
        history.keep()
    log.info("stopped")


def _follow(asked: Request, runs: RunMetrics, *, trigger: str, engine: str | None) -> None:
    from cdc_views.operations.following import follow_tables

    history = Runs("materialize", asked.project)

    def print_run(name: str, outcome: Materialization) -> None:
        seconds = runs.succeed(name, outcome)
        history.add(name, figures_of_materialization(outcome, seconds), seconds=seconds)
        log.info(f"{name}: {outcome.line()}", **_facts(name, outcome, seconds))
        if not asked.is_for_people:
            asked.print(_COLUMNS, [{"table": name, **_record(outcome)}])
            sys.stdout.flush()

    if asked.format in ("json", "csv"):
        raise UsageError(f"--trigger prints rows as they come, which {asked.format} cannot; use --format table or jsonl")
    try:
        _run_until_stopped(lambda stop: follow_tables(asked.tables, trigger=trigger, engine=engine, stop=stop, on_run=print_run))
    finally:
        history.keep()


def _completed(happenings: Iterable[Happening], runs: RunMetrics, history: Runs) -> Iterator[Completed]:
    from cdc_views.operations.scheduling import Completed

    for happening in happenings:
        _count(happening, runs, history)
        if isinstance(happening, Completed):
            warn_of_late(happening.table, happening.outcome.late)
            yield happening
            sys.stdout.flush()
        else:
            _log(happening)


def _count(happening: Happening, runs: RunMetrics, history: Runs) -> None:
    from cdc_views.operations.scheduling import Completed, Failed, Started

    name = happening.table
    if isinstance(happening, Started):
        runs.begin(name)
    elif isinstance(happening, Completed):
        seconds, tick = runs.succeed(name, happening.outcome), _instant(happening.tick)
        message = f"{name}: run of {tick} ended: {happening.outcome.line()}"
        log.info(message, **_facts(name, happening.outcome, seconds), tick=tick)
        history.add(name, figures_of_materialization(happening.outcome, seconds), seconds=seconds)
    elif isinstance(happening, Failed):
        runs.fail(name)
        history.add(name, failed(happening.error))
    else:
        runs.skip(name)


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
