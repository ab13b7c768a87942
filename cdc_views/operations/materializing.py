"""Brings state up to date, and chooses whether a read may use it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from cdc_views.engines.base import Engine, Read, Sources
from cdc_views.landing import exists, open_raw
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import check_landed, check_raw_is_whole
from cdc_views.operations.known_raw import check_known, remember
from cdc_views.operations.lateness import forgetting_of, sees_purged
from cdc_views.operations.warehouse_state import materialize_remote, remote_sources
from cdc_views.rules.instants import Instant, epoch_seconds
from cdc_views.state import Materialization, materialize, sources_of
from cdc_views.state.serving import serve


def materialize_table(table: TableContext, *, full: bool, engine: str | None, now: Instant | None = None) -> Materialization:
    """Bring the table's state up to date with what landed since, then its serving table, if any.

    Args:
        table: The table.
        full: Build both from all of raw.
        engine: Where to run; None: the project's engine.
        now: The clock of the serving table's rows (rule C4) and of `materialize.lateness` (M2); None: the current time.

    Raises:
        UsageError: Nothing has landed yet.
        ConflictError: Other runs kept committing first; nothing is lost, run it again.
    """
    if table.project.is_remote:
        return materialize_remote(table, full=full, engine=engine, now=now)
    _check_landed(table)
    with table.project.engine(engine) as opened:
        done = _materialized(opened, table, full=full, now=now)
    remember(table)
    return done


def materialize_on(engine: Engine, table: TableContext, *, full: bool) -> Materialization:
    """As `materialize_table`, on an open engine."""
    _check_landed(table)
    return _materialized(engine, table, full=full)


def _materialized(engine: Engine, table: TableContext, *, full: bool, now: Instant | None = None) -> Materialization:

    clock = epoch_seconds(datetime.now(timezone.utc) if now is None else now, option="now")
    state, location = table.state_location, table.serving_location
    done = materialize(engine, table.raw, state, full=full, forgetting=forgetting_of(table, now=clock))
    if location is None:
        return done
    served = serve(engine, table.raw, state, location, now=clock, full=full)
    return replace(done, is_new=done.is_new or served.is_new, told=f"{done.line()}; {served.line()}")


def _check_landed(table: TableContext) -> None:

    check_landed(table)
    open_raw(table.raw, format_name=table.format.name)


def sources_for(table: TableContext, read: Read, *, as_of: int | None = None) -> Sources | None:
    """Return the state and the raw events since for a read; None if only raw can answer.

    A state cannot undo later landings or writes: it no longer has the losers (rule M1). Nor does it have purged cells (rule
    M2), which a clock `as_of` (None: now) before their expiry still sees.
    """
    if table.project.is_remote:
        return remote_sources(table, read, as_of=as_of)
    if not exists(table.raw):
        check_known(table)
    if read.landed_as_of is not None or read.written_as_of is not None or not exists(table.raw):
        check_raw_is_whole(table, what="what had landed or been written by an earlier instant")
        return None
    sources = sources_of(read.raw, table.state_location, where=read.where)
    if sources is None or (as_of is not None and sees_purged(sources, as_of)):
        check_raw_is_whole(table, what="what raw shows without a state")
        return None
    return sources


def view_sources(table: TableContext) -> Sources | None:
    """Return the state and the raw events since for a view over files; None without a state."""
    return sources_for(table, Read(table.raw, as_of=0))
