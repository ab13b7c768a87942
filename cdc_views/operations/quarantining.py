"""Lists and discards the events that wait in a table's quarantine; `replay` lands them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from cdc_views.errors import UsageError
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.quarantine import open_quarantine, resolve_events
from cdc_views.landing.raw_table import is_delta, quarantine_location
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import check_lands


@dataclass(frozen=True, slots=True)
class Waiting:
    """One event that could not land, with its file or stream, 1-based line, and last reason; `event_id` is stable."""

    event_id: str
    source: str
    line: int
    reason: str
    landed_at: datetime
    event: bytes


def waiting_of(table: TableContext, *, events: Sequence[str] = ()) -> Iterator[Waiting]:
    """Yield waiting events by file and line: all, or those whose ids begin with one of `events`.

    Raises `UnsupportedError` if the raw table is in BigQuery, `UsageError` if an id matches no waiting event, or several.
    """
    import pyarrow.dataset as ds

    table.project.check_raw_tables_are_local()
    rows = []
    if is_delta(quarantine_location(table.raw)):
        kept = open_quarantine(table.raw)
        with delta_errors(kept.table_uri):
            names = ["event_id", "source", "line", "reason", "landed_at", "event"]
            rows = kept.to_pyarrow_dataset().to_table(columns=names, filter=ds.field("replay").is_null()).to_pylist()
    found = sorted((Waiting(**row) for row in rows), key=lambda one: (one.source, one.line, one.event_id))
    wanted = {_one(table, found, start) for start in events}
    yield from (one for one in found if not events or one.event_id in wanted)


def _one(table: TableContext, found: Sequence[Waiting], start: str) -> str:
    meant = [one.event_id for one in found if one.event_id.startswith(start)]
    if len(meant) != 1 or not start:
        found_ids = f"the ids of {len(meant)} waiting events begin" if meant else "the id of no waiting event begins"
        raise UsageError(f"{table.name}: {found_ids} with {start!r}; `cdc-views quarantine list` shows them")
    return meant[0]


def discard(table: TableContext, *, events: Sequence[str] = (), why: str) -> int:
    """Make tests and replays skip waiting events, all or those whose ids begin with one of `events`; returns how many. Their rows
    and bytes stay in quarantine, with `why` beside the reason, in one commit. Raises like `waiting_of`.
    """
    check_lands(table)
    if not why.strip():
        raise UsageError("--reason is empty; say why these events are not to land")
    return resolve_events(
        table.raw, {one.event_id: f"{one.reason}; discarded: {why}" for one in waiting_of(table, events=events)}
    )
