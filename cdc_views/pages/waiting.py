"""The events that wait in quarantine, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from cdc_views.landing.delta import delta_errors
from cdc_views.landing.quarantine import open_quarantine
from cdc_views.landing.raw_table import is_delta, quarantine_location
from cdc_views.landing.redaction import without_values
from cdc_views.operations.context import TableContext
from cdc_views.pages.texts import has_withheld, visible
from cdc_views.rules.codec.times import instant_text
from cdc_views.rules.instants import micros

PAGE = 25
EVENT = 2_000
"""Letters of an event that a page shows."""


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An event that waits; `content` is its text or hex, empty if it stays out."""

    event_id: str
    source: str
    line: int
    reason: str
    since: str
    content: str
    bytes: int


@dataclass(frozen=True, slots=True)
class WaitingPage:
    """A page of waiting events in the order of `quarantine list`. `lands`: they may be discarded or replayed here. `left_out`
    says why their content, and what may quote it, is not there; empty if it is.
    """

    events: tuple[WaitingEvent, ...]
    in_all: int
    offset: int
    lands: bool
    left_out: str = ""

    @property
    def has_more(self) -> bool:
        """Whether events come after those of this page."""
        return self.offset + len(self.events) < self.in_all


def waiting_page(table: TableContext, *, offset: int = 0, most: int = PAGE, with_values: bool = True) -> WaitingPage:
    """Return the page; of the events before and after it, only ids and places are read."""
    table.project.check_raw_tables_are_local()
    left_out = "" if with_values else "what they hold is left out"
    if has_withheld(table):
        left_out = "columns of this table have policies, so its events are not shown here"
    if not is_delta(quarantine_location(table.raw)):
        return WaitingPage((), 0, offset, not table.is_external, left_out)
    kept = open_quarantine(table.raw)
    waits = ds.field("replay").is_null()
    with delta_errors(kept.table_uri):
        data = kept.to_pyarrow_dataset()
        places = data.to_table(columns=["event_id", "source", "line"], filter=waits)
        order = pc.sort_indices(places, [("source", "ascending"), ("line", "ascending"), ("event_id", "ascending")])
        ids = places["event_id"].take(order.slice(offset, most)).to_pylist()
        rows, columns = [], ["event_id", "source", "line", "reason", "landed_at", "event"]
        # Arrow cannot filter by text here: it trusts the statistics of files that a merge wrote, which it misreads
        for batch in data.to_batches(columns=columns, filter=waits):
            rows += batch.filter(pc.is_in(batch.column(0), pa.array(ids, batch.schema.types[0]))).to_pylist()
    found = {row["event_id"]: _event(table, row, with_values=with_values) for row in rows}
    events = tuple(found[one] for one in ids if one in found)
    return WaitingPage(events, places.num_rows, offset, not table.is_external, left_out)


def _event(table: TableContext, row: dict[str, Any], *, with_values: bool) -> WaitingEvent:
    content, withheld = bytes(row["event"]), has_withheld(table)
    reason = str(row["reason"])
    if withheld or not with_values:  # it may quote the event
        reason = without_values(reason, table.schema)
    return WaitingEvent(
        str(row["event_id"]),
        visible(str(row["source"]), most=300),
        int(row["line"]),
        visible(reason, most=600),
        instant_text(micros(row["landed_at"])),
        "" if withheld or not with_values else visible(_text(content), most=EVENT),
        len(content),
    )


def _text(event: bytes) -> str:
    try:
        return event.decode()
    except UnicodeDecodeError:
        return f"0x{event[:EVENT].hex()}"
