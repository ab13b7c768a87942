"""Quarantine: events that could not be decoded, each once, with its bytes and the reason.

A Delta table beside the raw table, `<raw>__quarantine`; grain: one row per event. Rows stay for good;
`replay` marks events that landed later, and `forget` removes the bytes of a forgotten key's events.

===========  ==================================================================================
column       meaning
===========  ==================================================================================
`event_id`   SHA-256 of the file up to the end of this event: the same event of the same file
`table`      the table it was landed for
`format`     the raw format it was read as
`source`     the file's name when it was landed; `-` for standard input
`line`       1-based;  `offset`: byte offset of its first byte
`reason`     why it did not decode at the last attempt
`event`      its bytes, without the newline; where columns have policies, as these leave it (`formats.redaction`)
`landed_at`  when it came here
`replay`     number of the replay that landed it, null while it waits (see `replay`); 0: nothing to replay: the start of
             an event that landed whole later, a discarded event, or one of a forgotten key, without its bytes
===========  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable

from cdc_views.formats.redaction import withheld_size
from cdc_views.landing.blocks import DecodedRows
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import (
    append,
    delta_errors,
    open_delta,
    overwrite,
    quarantine_log_settings,
    recorded,
    with_quarantine_log_settings,
)
from cdc_views.landing.denylist import NOT_KEPT
from cdc_views.landing.raw_table import create, is_delta, quarantine_location
from cdc_views.landing.sources import Prefix, RawLine
from cdc_views.storage.relation import RawTable

COLUMNS = pa.schema(
    [
        ("event_id", pa.string()),
        ("table", pa.string()),
        ("format", pa.string()),
        ("source", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("event", pa.binary()),
        ("landed_at", pa.timestamp("us", tz="UTC")),
        ("replay", pa.int64()),
    ]
)


RESOLVED = 0  # the `replay` of an event with nothing to replay


class RawEvent(NamedTuple):
    """One event of a source.

    Attributes:
        source: Its file, stream or table; `-` for standard input.
        event_id: Stable: reading the event again gives the same id.
        content: Its bytes, without the newline.
        line: The 1-based line of a file, `Position.nth` of a stream, or the number of a table's row in its file.
        offset: The offset of its first byte in a file, or `Position.at` of a stream; `end` is the offset after it.
        is_ordered: Whether `line` and `offset` order the source's events; rows of a table come in no order.
        rows: Rows that the source made of this and maybe other events; then `content` is empty. None: decode `content`.
        is_redacted: Whether `content` is what policies of columns left of the bytes.
    """

    source: str
    event_id: str
    content: bytes
    line: int = 0
    offset: int = 0
    end: int = 0
    is_ordered: bool = True
    rows: DecodedRows | None = None
    is_redacted: bool = False

    @property
    def place(self) -> Mapping[str, int]:
        """The decoder's arguments `line` and `offset`."""
        return {"line": self.line, "offset": self.offset} if self.is_ordered else {"line": 0, "offset": 0}

    @property
    def where(self) -> str:
        """The event's place, for messages."""
        return f"{self.source}:{self.line} (offset {self.offset})"


class RejectedEvent(NamedTuple):
    """An event for quarantine; `is_forgotten`: its key was forgotten, and no replay takes it."""

    event: RawEvent
    reason: str
    is_forgotten: bool = False


def create_quarantine(raw: RawTable) -> DeltaTable:
    """Return the raw table's quarantine; create it if it is missing."""
    location = quarantine_location(raw)
    if not is_delta(location):
        name = raw.relation.schema.full_name
        what = {"name": f"{name} (quarantine)", "description": "cdc-views quarantine; layout 1"}
        create(location, COLUMNS, settings=quarantine_log_settings(), **what)
    return with_quarantine_log_settings(open_quarantine(raw))


def open_quarantine(raw: RawTable) -> DeltaTable:
    """Return the raw table's quarantine at its newest version."""
    return open_delta(quarantine_location(raw))


def put(decoder: Decoder, rejected: Sequence[RejectedEvent], *, mark: str) -> list[RejectedEvent]:
    """Add those events of one source to quarantine that are not there yet, in one commit; return them.

    `mark` is the source's transaction id. One of two concurrent calls raises `ConflictError` and writes nothing, so that
    quarantine has each event once.
    """
    if not rejected:
        return []
    table = create_quarantine(decoder.raw)
    # Delta compares only the ids of transactions; their numbers just have to grow
    number = (recorded(table, mark) or 0) + 1
    known = known_ids(table, {event.event_id for event, *_ in rejected})
    fresh = [one for one in rejected if one.event.event_id not in known]
    if fresh:
        append(table, rows_of(decoder, fresh), transactions={mark: number})
    return fresh


def clear_quarantine(raw: RawTable) -> None:
    """Empty the raw table's quarantine, if it has one, before its events are read again."""
    if is_delta(quarantine_location(raw)):
        overwrite(open_quarantine(raw), COLUMNS.empty_table(), transactions={})


def waiting(raw: RawTable) -> tuple[int, str]:
    """Return the number of events that wait in the raw table's quarantine, and the place and reason of the first."""
    if not is_delta(quarantine_location(raw)):
        return 0, ""
    table = open_quarantine(raw)
    with delta_errors(table.table_uri):
        scanner = table.to_pyarrow_dataset().scanner(columns=["source", "line", "reason"], filter=ds.field("replay").is_null())
        count, found = scanner.count_rows(), scanner.head(1).to_pylist()
    return count, "".join(f"{event['source']}:{event['line']}: {event['reason']}" for event in found)


def resolve_fragment(raw: RawTable, *, landed: Prefix, line: RawLine) -> None:
    """Resolve the start of `line`, quarantined when the file ended inside it; the caller lands `line`, after prefix `landed`."""
    if not is_delta(quarantine_location(raw)):
        return
    table = open_quarantine(raw)
    waits_here = (ds.field("offset") == line.start) & ds.field("replay").is_null()
    with delta_errors(table.table_uri):
        waiting = table.to_pyarrow_dataset().to_table(columns=["event_id", "event", "reason"], filter=waits_here).to_pylist()
    starts = [row for row in waiting if is_start(row["event"], row["event_id"], line=line, landed=landed)]
    grown = "the file has grown and the whole event was landed"
    resolve_events(raw, {row["event_id"]: f"{row['reason']}; {grown}" for row in starts})


def is_start(event: bytes, event_id: str, *, line: RawLine, landed: Prefix) -> bool:
    """Whether a quarantined event is the start of `line` in the same file; `landed` is the prefix before it."""
    size = withheld_size(event)
    event = event if size is None else line.content[:size]
    if event == line.content or not line.content.startswith(event):
        return False
    through = landed.digest.copy()
    through.update(event)
    return through.digest().hex() == event_id


def empty_events(table: DeltaTable, reasons: Mapping[str, str]) -> None:
    """Remove the bytes of events, by id, and set a new reason; no replay takes these events."""
    update = {"reason": "change.reason", "event": "change.event", "replay": f"COALESCE(kept.replay, {RESOLVED})"}
    _resolve(table, reasons, update)


def resolve_events(raw: RawTable, reasons: Mapping[str, str]) -> int:
    """Mark waiting events, by id, as resolved with a new reason; their bytes stay. Return the number of events."""
    if not reasons:
        return 0
    update = {"reason": "change.reason", "replay": str(RESOLVED)}
    return _resolve(open_quarantine(raw), reasons, update, where=" AND kept.replay IS NULL")


def _resolve(table: DeltaTable, reasons: Mapping[str, str], update: dict[str, str], *, where: str = "") -> int:
    """Change the rows of events; `update` may name `change.event`, which is empty."""
    if not reasons:
        return 0
    rows = [{"event_id": name, "reason": storable(reason), "event": NOT_KEPT} for name, reason in reasons.items()]
    changes = pa.Table.from_pylist(rows, schema=pa.schema([COLUMNS.field(name) for name in rows[0]]))
    return update_events(table, changes, update, where=where)


def update_events(
    table: DeltaTable, changes: pa.Table, update: dict[str, str], *, where: str = "", properties: CommitProperties | None = None
) -> int:
    """Change the rows of events in one commit; return their number.

    `update` gives the new value of each column, in SQL: `kept` is an event's row, `change` its row in `changes`.
    """
    with delta_errors(table.table_uri):
        merge = table.merge(
            changes,
            predicate=f"kept.event_id = change.event_id{where}",
            source_alias="change",
            target_alias="kept",
            commit_properties=properties,
        )
        return int(merge.when_matched_update(update).execute()["num_target_rows_updated"])


def known_ids(table: DeltaTable, wanted: set[str]) -> set[str]:
    """Return the members of `wanted` that are ids of quarantined events."""
    found: set[str] = set()
    # Arrow cannot filter here: it fails on the text statistics of files that a merge wrote
    with delta_errors(table.table_uri):
        for batch in table.to_pyarrow_dataset().to_batches(columns=["event_id"]):
            found.update(wanted.intersection(batch.column(0).to_pylist()))
    return found


def storable(text: str) -> str:
    """Return text without lone surrogates (from odd file names and JSON escapes), which Arrow refuses."""
    return text.encode("utf-8", "backslashreplace").decode()


def rows_of(decoder: Decoder, rejected: Sequence[RejectedEvent]) -> pa.Table:
    """Return rejected events as rows of quarantine."""
    rows = [
        {
            "table": decoder.raw.relation.schema.full_name,
            "format": decoder.format.name,
            "landed_at": decoder.landed_at,
            "event_id": event.event_id,
            "source": storable(event.source),
            "line": event.line,
            "offset": event.offset,
            "reason": storable(reason),
            "event": event.content,
            "replay": RESOLVED if is_forgotten else None,
        }
        for event, reason, is_forgotten in rejected
    ]
    return pa.Table.from_pylist(rows, schema=COLUMNS)
