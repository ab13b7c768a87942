"""State that a warehouse keeps itself: what to ask it to keep, and what a read may take from it."""

from __future__ import annotations

from dataclasses import replace

from cdc_views.engines.base import Read, Sources
from cdc_views.engines.warehouses import StateDefinition, StateRun
from cdc_views.errors import UnsupportedError
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import adapted
from cdc_views.operations.lateness import lateness_seconds
from cdc_views.rules.codec.times import datetime_text
from cdc_views.rules.instants import Instant, epoch_micros
from cdc_views.state import Materialization


def state_definition(table: TableContext) -> StateDefinition:
    """Return the state that the project file asks for."""
    lateness = table.config.materialize.lateness
    return StateDefinition(
        table.config.slug,
        table.raw,
        serving=table.config.serving_name or "",
        lateness=None if lateness is None else lateness_seconds(lateness),
    )


def materialize_remote(
    table: TableContext, *, full: bool, engine: str | None = None, now: Instant | None = None, dry_run: bool = False
) -> Materialization:
    """Bring the table's state in its warehouse up to date; see `Table.materialize`. `dry_run`: say what that would do.

    Raises `UnsupportedError` for a clock other than the warehouse's.
    """
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
        what = "built" if done.is_full else "brought up to date"
        read = f"state {what} from {done.facts:,} raw facts about {done.keys or 0:,} keys{_landed(done)}"
    else:
        read = f"state {'built' if done.is_full else 'is up to date'}{_landed(done)}"
    why = f" ({done.why})" if done.why else ""
    size = f": {done.state_rows:,} facts, {done.state_bytes / 1e6:,.1f} MB"
    settled = ", written anew" if done.is_settled else ""
    served = "" if done.served_rows is None else f"; serving table: {done.served_rows:,} rows"
    late = f"; {done.late:,} facts landed too late and are in quarantine" if done.late else ""
    return f"{read}{why}{size}{settled}{served}{late}{_added(done)}"


def _planned_line(done: StateRun) -> str:
    what = "build the state from" if done.is_full else "merge"
    settled = ", and write the state anew" if done.is_settled else ""
    reads = f"; reads at most {(done.reads or 0) / 1e6:,.1f} MB"
    return f"would {what} at most {done.facts:,} raw facts{_landed(done)}{settled}{reads}{_added(done)}"


def _landed(done: StateRun) -> str:
    return "" if done.landed is None else f", landed up to {datetime_text(epoch_micros(done.landed, option='landed'))}Z"


def _added(done: StateRun) -> str:
    return "".join(f"; {line}" for line in done.added)


def remote_sources(table: TableContext, read: Read, *, as_of: int | None) -> Sources | None:
    """Return state and tail as one short raw table; None where only raw can answer, as `materializing.sources_for` says.

    A state that lacks a column of the schema file is not read until the next run has given it that.
    """
    if read.landed_as_of is not None or read.written_as_of is not None:
        return None
    with table.project.remote() as opened:
        standing = opened.state(table.config.slug, read.raw)
    if standing is None or not standing.is_complete:
        return None
    if as_of is not None and standing.horizon is not None and as_of <= standing.horizon:
        return None
    facts = table.project.warehouse_plugin.raw_location(table.project.config, standing.facts)
    return Sources(replace(read.raw, location=facts), 0)
