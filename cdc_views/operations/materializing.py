"""Brings state up to date, here or in a warehouse that keeps its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from cdc_views.engines.base import Engine
from cdc_views.engines.warehouses import StateRun
from cdc_views.errors import UnsupportedError
from cdc_views.operations import known_raw
from cdc_views.operations.applying import Changed, missed_by_view, refresh_view
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import adapted, landed
from cdc_views.operations.lateness import forgetting_of
from cdc_views.operations.renewing import renewed
from cdc_views.operations.sources import state_definition
from cdc_views.rules.codec.times import datetime_text
from cdc_views.rules.instants import Instant, epoch_micros, epoch_seconds
from cdc_views.state import Materialization, materialize
from cdc_views.state.outcome import what_was_read
from cdc_views.state.serving import serve


def materialize_table(table: TableContext, *, full: bool, engine: str | None, now: Instant | None = None) -> Materialization:
    """Bring the table's state up to date with new facts, then its serving table, if any.

    Args:
        table: The table.
        full: Build both from all of raw.
        engine: Where to run; None: the project's engine.
        now: The clock of the serving table's rows (rule C4) and of `materialize.lateness` (M2); None: the current time.

    Raises:
        UsageError: Nothing has landed yet.
        UnsupportedError: `now` is given, and a remote warehouse keeps the state by its own clock.
        ConflictError: Other runs kept committing first; nothing is lost, run it again.
        CheckFailedError: The view missed facts until now, because their commits took longer than `materialize.overlap`. State and
            view have them.
    """
    table = renewed(table)
    if table.project.is_remote:
        return materialize_remote(table, full=full, engine=engine, now=now)
    landed(table)
    with table.project.engine(engine) as opened:
        return _materialized(opened, table, full=full, now=now)


def materialize_on(engine: Engine, table: TableContext) -> Materialization:
    """Do the work of `materialize_table` on an open engine."""
    table = renewed(table)
    landed(table)
    return _materialized(engine, table, full=False)


def _materialized(engine: Engine, table: TableContext, *, full: bool, now: Instant | None = None) -> Materialization:
    done = _with_serving(engine, table, full=full, now=now)
    missed = missed_by_view(table, through=done.raw_version)
    # a kill before this is harmless: the view of before reads a longer tail
    # all of it is new: a view that names the files of before would show what they have
    refresh_view(table, Changed.STATE | Changed.RAW if full else Changed.STATE, engine=engine)
    known_raw.remember(table)
    if missed is not None:
        raise missed
    return done


def _with_serving(engine: Engine, table: TableContext, *, full: bool, now: Instant | None) -> Materialization:
    clock = epoch_seconds(datetime.now(timezone.utc) if now is None else now, option="now")
    state, location = table.state_location, table.serving_location
    done = materialize(engine, table.raw, state, full=full, forgetting=forgetting_of(table, now=clock))
    if location is None:
        return done
    served = serve(engine, table.raw, state, location, now=clock, full=full)
    return replace(done, is_new=done.is_new or served.is_new, told=f"{done.line()}; {served.line()}")


def materialize_remote(
    table: TableContext, *, full: bool, engine: str | None = None, now: Instant | None = None, dry_run: bool = False
) -> Materialization:
    """Bring the table's state in its warehouse up to date; `dry_run`: only report what that would do."""
    if now is not None:
        name = table.project.config.engine
        raise UnsupportedError(f"{table.name}: its state is kept by {name}, whose own clock decides", remedy="leave `now` out")
    if engine not in (None, table.project.config.engine):
        with table.project.engine(engine):  # raises: the raw table is not on this machine
            pass
    if not dry_run:
        adapted(table)
    with table.project.remote() as opened:
        done = opened.materialize(state_definition(table), full=full, dry_run=dry_run)
    return Materialization(
        is_new=bool(done.facts or done.added or done.is_full or done.is_settled),
        raw_version=None,
        facts=done.facts,
        is_full=done.is_full,
        why=done.why,
        merged="base" if done.is_settled else "",
        state_facts=done.state_rows,
        state_bytes=done.state_bytes,
        told=_planned_line(done) if dry_run else _line(done),
        late=done.late,
    )


def _line(done: StateRun) -> str:
    if done.facts:
        read = f"state {what_was_read(done.facts, is_full=done.is_full)} about {done.keys or 0:,} keys{_landed(done)}"
    else:
        read = f"state {'built' if done.is_full else 'is up to date'}{_landed(done)}"
    why = f" ({done.why})" if done.why else ""
    size = f"; it now has {done.state_rows:,} facts in {done.state_bytes / 1e6:,.1f} MB"
    settled = ", written anew" if done.is_settled else ""
    served = "" if done.served_rows is None else f"; serving table: {done.served_rows:,} rows"
    late = f"; {done.late:,} facts landed too late and are in quarantine" if done.late else ""
    return "; ".join([f"{read}{why}{size}{settled}{served}{late}", *done.added])


def _planned_line(done: StateRun) -> str:
    what = "build the state from" if done.is_full else "merge"
    settled = ", and write the state anew" if done.is_settled else ""
    reads = f"reads at most {(done.reads or 0) / 1e6:,.1f} MB"
    return "; ".join([f"would {what} at most {done.facts:,} raw facts{_landed(done)}{settled}", reads, *done.added])


def _landed(done: StateRun) -> str:
    return "" if done.landed is None else f", landed up to {datetime_text(epoch_micros(done.landed, option='landed'))}Z"
