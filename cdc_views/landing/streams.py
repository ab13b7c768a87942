"""Landing from a stream: batches of events in the order of their positions; one commit has rows and position.

A *stream* is what one producer reads of one table in its own order: a replication slot, a binlog, a partition of a topic, a
node's commit log. Events may come again, from any earlier position: those that landed are skipped.

Delta keeps one integer under each transaction id, so a position takes two of them, compared one after the other:

=====================  ==============================================================================
transaction id         integer
=====================  ==============================================================================
`stream:<name>:at`     a place in the log: an LSN, an offset of a topic, a segment
`stream:<name>:nth`    how far into it: the event of a transaction, the byte of a segment
=====================  ==============================================================================

A source that needs more than that to read on, as MySQL's sets of GTIDs, lands a *note* with the position. It takes further
integers: `stream:<name>:note:0` is its length in bytes, and each next one has seven of the bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import lt

from cdc_views.formats.base import RawFormat
from cdc_views.landing.blocks import DecodedRows, EventBlock, Lines, Position, StreamBatch, StreamEvent, are_single
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.denylist import NOT_KEPT, Denylist
from cdc_views.landing.formed import FormReader
from cdc_views.landing.pacing import Pace
from cdc_views.landing.pipeline import Batch, commit
from cdc_views.landing.quarantine import RawEvent, put
from cdc_views.landing.raw_table import check_log, landing_log
from cdc_views.landing.report import SHOWN_REJECTIONS, Rejection
from cdc_views.rules.instants import micros
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable
from cdc_views.storage.stores import is_url
from cdc_views.storage.table_log import TableLog

_OPENED_ANEW_AFTER = 50
"""In versions. A commit of one row took 13 ms (median of 400), 24 ms with a table held open, 40 ms if each commit opened it."""


@dataclass(slots=True)
class FollowedTable:
    """A raw table, created if it is missing; each use raises if the table there belongs to another source table."""

    raw: RawTable
    format_name: str
    log: TableLog = field(init=False)
    _first_version: int = field(init=False)

    def __post_init__(self) -> None:
        self._open()

    def newest(self) -> TableLog:
        """Return the log of the table at its newest version."""
        newest = None if self.log.version - self._first_version >= _OPENED_ANEW_AFTER else self.log.followed()
        if newest is None:
            self._open()
        else:
            check_log(self.raw, newest, format_name=self.format_name)
            self.log = newest
        return self.log

    def _open(self) -> None:
        self.log = landing_log(self.raw, format_name=self.format_name)
        self._first_version = self.log.version


_BEFORE_ALL = Position(-1, 0)


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one call of `StreamLander.land` did.

    Attributes:
        facts: Rows of the landed events in the raw table.
        skipped: Events that had landed before.
        quarantined: Events put into quarantine; their `Position.at` is the `offset` there, `nth` the `line`.
        rejections: The first few of these (`StreamLander.shown`); `line` is `Position.nth`.
        forgotten: Events that are in part about a forgotten key; quarantine has their place, not their content.
        pause: Seconds to wait before the next commit, for the sake of other landers; 0 if there is no need.
    """

    events: int = 0
    facts: int = 0
    skipped: int = 0
    quarantined: int = 0
    rejections: tuple[Rejection, ...] = ()
    forgotten: int = 0
    pause: float = 0.0


@dataclass(slots=True)
class StreamLander:
    """Lands streams into one raw table, which is created if it is missing; `land` takes the events of `stream`.

    Two landers of one stream may run at once: one commits first, the other finds its position and skips. `shown` is the number
    of quarantined events that a report names; None: a few.
    """

    raw: RawTable
    format: RawFormat
    stream: str
    forgotten: Denylist | None = None
    shown: int | None = None
    _table: FollowedTable = field(init=False)
    _reader: FormReader = field(init=False)
    _pace: Pace = field(default_factory=Pace, init=False)

    def __post_init__(self) -> None:
        self._table = FollowedTable(self.raw, self.format.name)
        self._reader = FormReader(self.raw.relation, self.format)

    def position(self) -> Position | None:
        """Return the last position that has landed; None if nothing of the stream has landed."""
        self._table.newest()
        return self._position(self.stream)

    def note(self) -> str:
        """Return the note that landed with the last position; empty if none did."""
        self._table.newest()
        return _text_of(lambda number: self._table.log.transaction(_name(self.stream, f"note:{number}")))

    def land(self, events: Sequence[StreamEvent], *, through: Position, now: datetime, note: str = "") -> BatchReport:
        """Land ascending events, and record that the stream has landed up to `through`, including other tables' events.

        Bad events go to quarantine first; a crash between the two commits repeats the batch, and quarantine recognizes them.
        Raises `TransientError` if other writers kept committing first, or a key of the batch was forgotten meanwhile.
        """
        return self.land_together([StreamBatch(self.stream, events, through, note)], now=now)

    def land_together(self, batches: Sequence[StreamBatch], *, now: datetime) -> BatchReport:
        """Land batches of several streams in one commit with all their positions; otherwise like `land`."""
        decoder = Decoder(self.raw, self.format, micros(now), self.forgotten)

        def attempt() -> BatchReport:
            self._table.newest()
            fresh = list(self._fresh(batches))
            skipped = sum(batch.items for batch in batches) - sum(batch.items for batch in fresh)
            return self._attempt(decoder.reread(), fresh, skipped) if fresh else BatchReport(skipped=skipped)

        names = ", ".join(batch.stream for batch in batches[:3])
        return retried(attempt, what=f"{names}: other writers kept committing to {self.raw.location}; run it again")

    def _position(self, stream: str) -> Position | None:
        at, nth = (self._table.log.transaction(_name(stream, part)) for part in Position._fields)
        return None if at is None else Position(at, nth or 0)

    def _fresh(self, batches: Iterable[StreamBatch]) -> Iterator[StreamBatch]:
        """Yield the events of each batch that have not landed; skip landed batches."""
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
        reached |= self._notes(batches)
        log = self._table.log = commit(self._table.log, rows, batch, transactions=reached, source=batches[0].stream)
        pause = self._pace.note(log.version) if is_url(log.location) else 0.0
        quarantined = batch.quarantined
        shown = SHOWN_REJECTIONS if self.shown is None else self.shown
        return BatchReport(batch.landed, rows.num_rows, skipped, len(quarantined), quarantined[:shown], batch.forgotten, pause)

    def _notes(self, batches: Sequence[StreamBatch]) -> dict[str, int]:
        """Return the integers of the batches' notes that differ from those that have landed."""
        given = {_name(one.stream, f"note:{k}"): part for one in batches if one.note for k, part in enumerate(_parts(one.note))}
        return {name: part for name, part in given.items() if self._table.log.transaction(name) != part}

    def _decoded(self, decoder: Decoder, batches: Sequence[StreamBatch]) -> Batch:
        batch, lines = Batch(decoder, self._reader), Lines()
        for stream, events, *_ in batches:
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
    """Whether an event is rows that land unchanged.

    Rows of another schema, and all rows once keys are forgotten, are read back into facts and checked one by one.
    """
    rows = event.content
    return isinstance(rows, DecodedRows) and not (decoder.holds_back or decoder.redacts) and rows.relation == decoder.raw.relation


def _raw_event(stream: str, event: StreamEvent) -> RawEvent:
    (at, nth), content = event
    assert not isinstance(content, EventBlock), "an event by itself"
    event_id = hashlib.sha256(f"{stream}\0{at}\0{nth}".encode()).hexdigest()
    rows = content if isinstance(content, DecodedRows) else None
    return RawEvent(stream, event_id, NOT_KEPT if isinstance(content, DecodedRows) else content, nth, at, at, rows=rows)


def _name(stream: str, part: str) -> str:
    return f"stream:{stream}:{part}"


_PART = 7
"""Bytes of a note in one integer, which has 63 bits."""


def _parts(note: str) -> list[int]:
    content = note.encode()
    return [len(content), *(int.from_bytes(content[at : at + _PART], "big") for at in range(0, len(content), _PART))]


def _text_of(part: Callable[[int], int | None]) -> str:
    length = part(0) or 0
    starts = range(0, length, _PART)
    pieces = ((part(1 + number) or 0).to_bytes(min(_PART, length - start), "big") for number, start in enumerate(starts))
    return b"".join(pieces).decode()


def positions_in(log: TableLog) -> dict[str, Position]:
    """Return the last landed position of each stream of a raw table."""
    parts = {name.removeprefix("stream:"): number for name, number in log.transactions.items() if name.startswith("stream:")}
    names = {name.removesuffix(":at") for name in parts if name.endswith(":at")}
    return {name: Position(parts[f"{name}:at"], parts.get(f"{name}:nth", 0)) for name in sorted(names)}


def _after(known: Position | None, events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Return the events after a position; of rows and blocks that begin before it, or that overlap, only the new part."""
    positions = [known or _BEFORE_ALL, *(event.position for event in events)]
    if all(map(lt, positions, positions[1:])) and are_single(events):
        return list(events)
    return list(_new_of(known, events))


def _new_of(known: Position | None, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    reached = known
    # by position only, never by content: equal events at two positions are two events, and the merge treats them as one
    for event in events:
        if reached is not None and event.position <= reached:
            continue
        if isinstance(event.content, DecodedRows) and reached is not None and reached.at == event.position.at:
            event = event._replace(content=event.content.after(reached.nth))
        if isinstance(event.content, EventBlock) and reached is not None:
            event = event._replace(content=event.content.after(reached))
        reached = event.position
        yield event
