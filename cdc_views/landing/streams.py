"""Landing from a stream: batches of events in the order of their positions, rows and position in one commit.

A *stream* is what one producer reads of one table in an order of its own: a replication slot, a binlog, a partition of
a topic, a node's commit log. Events may come again, from any earlier position: what a commit records is skipped.

Delta keeps one integer under each transaction id, so a position is two of them, compared one after the other:

=====================  ==============================================================================
transaction id         integer
=====================  ==============================================================================
`stream:<name>:at`     a place in the log: an LSN, an offset of a topic, a segment
`stream:<name>:nth`    how far into it: the event of a transaction, the byte of a segment
=====================  ==============================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import lt
from typing import Any

from deltalake import DeltaTable

from cdc_views.formats.base import RawFormat
from cdc_views.landing.blocks import DecodedRows, EventBlock, Lines, Position, StreamBatch, StreamEvent, are_single
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import delta_errors, recorded
from cdc_views.landing.denylist import NOT_KEPT, Denylist
from cdc_views.landing.formed import FormReader
from cdc_views.landing.pipeline import Batch, commit
from cdc_views.landing.quarantine import RawEvent, put
from cdc_views.landing.raw_table import check_raw, create_raw
from cdc_views.landing.report import SHOWN_REJECTIONS, Rejection
from cdc_views.rules.instants import micros
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

_OPENED_ANEW_AFTER = 50
"""Versions: over 400 commits of one row the median was 13 ms, against 24 ms held open all the time and 40 ms opened each time."""


@dataclass(slots=True)
class FollowedTable:
    """A raw table, created where it is not there; what landing raises for one that is another table's is raised each time."""

    raw: RawTable
    format_name: str
    opened: DeltaTable = field(init=False)
    _last: list[dict[str, Any]] = field(init=False)
    _first_version: int = field(init=False)

    def __post_init__(self) -> None:
        self._open()

    def newest(self) -> DeltaTable:
        """Return the table at its newest version."""
        with delta_errors(self.raw.location):
            is_old = self.opened.version() - self._first_version >= _OPENED_ANEW_AFTER
            is_same = bool(self._last) and not is_old and self.opened.history(1) == self._last
            if is_same:
                self.opened.update_incremental()
        if is_same:
            check_raw(self.raw, self.opened, format_name=self.format_name)
            self.note()
        else:
            self._open()
        return self.opened

    def note(self) -> None:
        """Take note of the version that `opened` is at, after a commit of its own; to be known again by `newest`."""
        with delta_errors(self.raw.location):
            self._last = self.opened.history(1)

    def _open(self) -> None:
        self.opened = create_raw(self.raw, format_name=self.format_name)
        self._first_version = self.opened.version()
        self.note()


_BEFORE_ALL = Position(-1, 0)


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one call of `StreamLander.land` did.

    Attributes:
        events: Events landed.
        facts: Rows those events made in the raw table.
        skipped: Events that had landed before.
        quarantined: Events put into quarantine, with the position's two numbers as `offset` and `line`.
        rejections: The first few of them (`StreamLander.shown`); `line` is `Position.nth`.
        forgotten: Events with something about a forgotten key; quarantine has where they were, not what they said.
    """

    events: int = 0
    facts: int = 0
    skipped: int = 0
    quarantined: int = 0
    rejections: tuple[Rejection, ...] = ()
    forgotten: int = 0


@dataclass(slots=True)
class StreamLander:
    """Lands streams into one raw table, which is created if it is not there.

    Two landers of one stream may run at once: of two that commit, one finds the other's position and skips.
    `stream` is whose events `land` takes. `shown` is how many quarantined events a report names; None: a few.
    """

    raw: RawTable
    format: RawFormat
    stream: str
    forgotten: Denylist | None = None
    shown: int | None = None
    _table: FollowedTable = field(init=False)
    _reader: FormReader = field(init=False)

    def __post_init__(self) -> None:
        self._table = FollowedTable(self.raw, self.format.name)
        self._reader = FormReader(self.raw.relation, self.format)

    def position(self) -> Position | None:
        """Return the position that has landed, itself included; None where nothing of the stream has."""
        self._table.newest()
        return self._position(self.stream)

    def land(self, events: Sequence[StreamEvent], *, through: Position, now: datetime) -> BatchReport:
        """Land events, ascending, and record that all up to `through` has landed, whether or not it was of this table.

        Bad events go to quarantine first; a crash between the two commits repeats the batch, and quarantine knows them.

        Raises:
            TransientError: Other writers kept committing first, or a key of the batch was forgotten meanwhile.
        """
        return self.land_together([StreamBatch(self.stream, events, through)], now=now)

    def land_together(self, batches: Sequence[StreamBatch], *, now: datetime) -> BatchReport:
        """Land a batch of each of some streams, all in one commit with all their positions; otherwise as `land`."""
        decoder = Decoder(self.raw, self.format, micros(now), self.forgotten)

        def attempt() -> BatchReport:
            self._table.newest()
            fresh = list(self._fresh(batches))
            skipped = sum(batch.items for batch in batches) - sum(batch.items for batch in fresh)
            return self._attempt(decoder.reread(), fresh, skipped) if fresh else BatchReport(skipped=skipped)

        names = ", ".join(batch.stream for batch in batches[:3])
        return retried(attempt, what=f"{names}: other writers kept committing to {self.raw.location}; run it again")

    def _position(self, stream: str) -> Position | None:
        at, nth = (recorded(self._table.opened, _name(stream, part)) for part in Position._fields)
        return None if at is None else Position(at, nth or 0)

    def _fresh(self, batches: Iterable[StreamBatch]) -> Iterator[StreamBatch]:
        """Yield what has not landed of each batch; nothing for one that has."""
        for batch in batches:
            known = self._position(batch.stream)
            if known is None or known < batch.through:
                yield batch._replace(events=_after(known, batch.events))

    def _attempt(self, decoder: Decoder, batches: Sequence[StreamBatch], skipped: int) -> BatchReport:
        batch = self._decoded(decoder, batches)
        rows = batch.rows()
        for stream in dict.fromkeys(one.event.source for one in batch.rejected):
            mine = [one for one in batch.rejected if one.event.source == stream]
            put(decoder, mine, mark=f"stream:{stream}")
        reached = {_name(one.stream, part): number for one in batches for part, number in one.through._asdict().items()}
        commit(self._table.opened, rows, batch, transactions=reached, source=batches[0].stream)
        self._table.note()
        quarantined = batch.quarantined
        shown = SHOWN_REJECTIONS if self.shown is None else self.shown
        return BatchReport(batch.landed, rows.num_rows, skipped, len(quarantined), quarantined[:shown], batch.forgotten)

    def _decoded(self, decoder: Decoder, batches: Sequence[StreamBatch]) -> Batch:
        batch, lines = Batch(decoder, self._reader), Lines()
        for stream, events, _ in batches:
            if are_single(events):
                lines.add(stream, events)
                continue
            rest: list[StreamEvent] = []
            for event in events:
                if _lands_as_made(event, decoder):
                    batch.add_made(_raw_event(stream, event))
                else:
                    rest.append(event)
            lines.add(stream, rest)
        contents = [content for content in lines.contents if not isinstance(content, DecodedRows)]
        if len(contents) == len(lines):
            batch.add_many(contents, lines=lines.numbers, event=lambda index: _raw_event(lines.stream(index), lines.event(index)))
        else:
            for index in range(len(lines)):
                batch.add(_raw_event(lines.stream(index), lines.event(index)))
        return batch


def _lands_as_made(event: StreamEvent, decoder: Decoder) -> bool:
    """Whether an event is rows that land as they are.

    Rows of another schema, and all rows once keys were forgotten, are read back into facts: these are looked at one by one.
    """
    rows = event.content
    return isinstance(rows, DecodedRows) and not decoder.holds_back and rows.relation == decoder.raw.relation


def _raw_event(stream: str, event: StreamEvent) -> RawEvent:
    (at, nth), content = event
    assert not isinstance(content, EventBlock), "an event by itself"
    event_id = hashlib.sha256(f"{stream}\0{at}\0{nth}".encode()).hexdigest()
    rows = content if isinstance(content, DecodedRows) else None
    return RawEvent(stream, event_id, NOT_KEPT if isinstance(content, DecodedRows) else content, nth, at, at, rows=rows)


def _name(stream: str, part: str) -> str:
    return f"stream:{stream}:{part}"


def _after(known: Position | None, events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Return what comes after a position; of rows and blocks that begin before it, and that overlap, what is new."""
    positions = [known or _BEFORE_ALL, *(event.position for event in events)]
    if all(map(lt, positions, positions[1:])) and are_single(events):
        return list(events)
    return list(_new_of(known, events))


def _new_of(known: Position | None, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    reached = known
    # by position alone, never by content: equal events at two positions are two events, and the merge takes both for one
    for event in events:
        if reached is not None and event.position <= reached:
            continue
        if isinstance(event.content, DecodedRows) and reached is not None and reached.at == event.position.at:
            event = event._replace(content=event.content.after(reached.nth))
        if isinstance(event.content, EventBlock) and reached is not None:
            event = event._replace(content=event.content.after(reached))
        reached = event.position
        yield event
