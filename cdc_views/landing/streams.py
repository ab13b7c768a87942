"""Landing from a stream: batches of events in the order of their positions, rows and position in one commit.

A *stream* is what one producer reads of one table in an order of its own: a replication slot, a binlog, a partition of
a topic, a node's commit log. Events may come again, from any earlier position: what a commit records is skipped.

Delta keeps one integer under each transaction id, so a position is two of them, compared one after the other:

=====================  ==============================================================================
transaction id         integer
=====================  ==============================================================================
`stream:<name>:at`     where the log stands: an LSN, an offset of a topic, a segment
`stream:<name>:nth`    how far into it: the event of a transaction, the byte of a segment
=====================  ==============================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import lt
from typing import NamedTuple

import pyarrow as pa

from cdc_views.errors import MalformedEventError, TransientError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.blocks import EventBlock, Lines, Position, StreamBatch, StreamEvent, are_single
from cdc_views.landing.committing import commit
from cdc_views.landing.decoding import Decoder, rows_of_events
from cdc_views.landing.delta import recorded
from cdc_views.landing.fact_filter import NOT_KEPT
from cdc_views.landing.following import FollowedTable
from cdc_views.landing.forgotten import Forgotten
from cdc_views.landing.formed import Formed, FormReader, in_order
from cdc_views.landing.lander import micros
from cdc_views.landing.quarantine import BadEvent, put_once
from cdc_views.landing.report import SHOWN_REJECTIONS, Rejection
from cdc_views.landing.rows import DecodedRows
from cdc_views.rules.facts import Fact
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

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


class _Decoded(NamedTuple):
    """An event that was decoded by itself: its place among those of the batch, and what of its facts is to land."""

    place: int
    facts: list[Fact]


class _Bad(NamedTuple):
    """An event for quarantine, and its stream."""

    stream: str
    event: BadEvent


@dataclass(slots=True)
class StreamLander:
    """Lands streams into one raw table, which is created if it is not there.

    Two landers of one stream may run at once: of two that commit, one finds the other's position and skips.
    `stream` is whose events `land` takes. `shown` is how many quarantined events a report names; None: a few.
    """

    raw: RawTable
    format: RawFormat
    stream: str
    forgotten: Forgotten | None = None
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
        made, lines = self._made(decoder, batches)
        formed = self._formed(decoder, lines)
        taken = {index for part in formed for index in part.events}
        good, bad = self._decoded(decoder, lines, (index for index in range(len(lines)) if index not in taken))
        single, misfits = rows_of_events(decoder, [event.facts for event in good])
        places = [event.place for i, event in enumerate(good) if i not in misfits for _ in event.facts]
        rows = pa.concat_tables([in_order([*formed, Formed(single, places)], empty=single), *_tables(made, decoder)])
        bad += [self._bad(lines, good[i].place, reason) for i, reason in misfits.items()]
        self._put(bad, decoder)
        commit(
            self._table.opened,
            rows,
            transactions=dict(chain.from_iterable(map(_reached, batches))),
            decoder=decoder,
            source=batches[0].stream,
            check_forgotten=lambda: self._check_forgotten(decoder, lines, good, others=taken, made=made),
        )
        self._table.note()
        told = [event for _, event in bad if not event.is_settled]
        shown = SHOWN_REJECTIONS if self.shown is None else self.shown
        return BatchReport(
            events=sum(map(_events, [*made, *(lines.event(each.place) for each in good)])) + len(taken) - len(misfits),
            facts=rows.num_rows,
            skipped=skipped,
            quarantined=len(told),
            rejections=tuple(Rejection(event.line, event.reason) for event in told[:shown]),
            forgotten=len(bad) - len(told),
        )

    def _made(self, decoder: Decoder, batches: Sequence[StreamBatch]) -> tuple[list[StreamEvent], Lines]:
        """Return the events whose rows are as they should land, and the others.

        Rows of another schema, or where keys were forgotten, are read back into facts: they are looked at one by one.
        """
        made: list[StreamEvent] = []
        lines = Lines()
        for stream, events, _ in batches:
            if are_single(events):
                lines.add(stream, events)
                continue
            rest: list[StreamEvent] = []
            for event in events:
                rows = event.content
                is_made = isinstance(rows, DecodedRows) and not decoder.holds_back and rows.relation == decoder.raw.relation
                (made if is_made else rest).append(event)
            lines.add(stream, rest)
        return made, lines

    def _formed(self, decoder: Decoder, lines: Lines) -> list[Formed]:
        """Return the rows of the events that are of a known form, by their indexes; none where keys were forgotten."""
        if decoder.holds_back:
            return []
        contents = [content for content in lines.contents if not isinstance(content, DecodedRows)]
        if len(contents) < len(lines):
            return []
        return self._reader.read(contents, lines=lines.numbers, landed_at=decoder.landed_at)

    def _decoded(self, decoder: Decoder, lines: Lines, indexes: Iterable[int]) -> tuple[list[_Decoded], list[_Bad]]:
        good: list[_Decoded] = []
        bad: list[_Bad] = []
        for index in indexes:
            event = lines.event(index)
            try:
                found = self._facts(decoder, event)
            except MalformedEventError as error:
                bad.append(self._bad(lines, index, str(error)))
                continue
            facts, reason = self._sifted(decoder, event, found)
            if reason:
                bad.append(self._bad(lines, index, reason, is_settled=True))
            if facts or not reason:
                good.append(_Decoded(index, facts))
        return good, bad

    @staticmethod
    def _facts(decoder: Decoder, event: StreamEvent) -> list[Fact]:
        if isinstance(event.content, DecodedRows):
            return event.content.facts(decoder.raw.relation.schema)
        return decoder.facts(_bytes(event), line=event.position.nth, offset=event.position.at)

    @staticmethod
    def _sifted(decoder: Decoder, event: StreamEvent, facts: list[Fact]) -> tuple[list[Fact], str]:
        return decoder.sifted(facts, _bytes(event), line=event.position.nth, offset=event.position.at)

    def _check_forgotten(
        self, decoder: Decoder, lines: Lines, landed: Iterable[_Decoded], *, others: Iterable[int], made: Iterable[StreamEvent]
    ) -> None:
        """Refuse to go on where a key of the batch was forgotten: its values are in a file by now, committed or not.

        `others` and `made` landed too, without their facts having been looked at.
        """
        reread = decoder.reread()
        found = [(lines.event(each.place), each.facts) for each in landed]
        unseen = [*made, *(lines.event(index) for index in others)]
        for event, facts in [*found, *((event, self._facts(reread, event)) for event in unseen)]:
            if self._sifted(reread, event, facts)[1]:
                place = f"{self.raw.relation.schema.full_name} at {event.position.at}:{event.position.nth}"
                raise TransientError(f"{place}: its key was forgotten while it landed; run that `forget` again")

    def _bad(self, lines: Lines, index: int, reason: str, *, is_settled: bool = False) -> _Bad:
        stream, event = lines.stream(index), lines.event(index)
        at, nth = event.position
        identity = hashlib.sha256(f"{stream}\0{at}\0{nth}".encode()).hexdigest()
        content = NOT_KEPT if is_settled else _bytes(event)
        return _Bad(stream, BadEvent(identity, nth, at, at, reason, content, is_settled=is_settled))

    def _put(self, bad: Sequence[_Bad], decoder: Decoder) -> None:
        """Put events into quarantine, those of each stream in a commit of their own."""
        for stream in dict.fromkeys(stream for stream, _ in bad):
            mine = [event for other, event in bad if other == stream]
            put_once(self.raw, mine, source=stream, format_name=self.format.name, landed_at=decoder.landed_at)


def _name(stream: str, part: str) -> str:
    return f"stream:{stream}:{part}"


def _reached(batch: StreamBatch) -> Iterator[tuple[str, int]]:
    """What the commit of a batch records."""
    return ((_name(batch.stream, part), number) for part, number in batch.through._asdict().items())


def _bytes(event: StreamEvent) -> bytes:
    """An event's own bytes; of rows that a source made there are none."""
    return event.content if isinstance(event.content, bytes) else NOT_KEPT


def _tables(events: Iterable[StreamEvent], decoder: Decoder) -> list[pa.Table]:
    return [event.content.stamped(decoder.landed_at) for event in events if isinstance(event.content, DecodedRows)]


def _events(event: StreamEvent) -> int:
    return event.content.events if isinstance(event.content, DecodedRows) else 1


def _after(known: Position | None, events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Return what comes after a position; of rows and blocks that begin before it, and that overlap, what is new."""
    positions = [known or _BEFORE_ALL, *(event.position for event in events)]
    if all(map(lt, positions, positions[1:])) and are_single(events):
        return list(events)
    return list(_new_of(known, events))


def _new_of(known: Position | None, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    reached = known
    for event in events:
        if reached is not None and event.position <= reached:
            continue
        if isinstance(event.content, DecodedRows) and reached is not None and reached.at == event.position.at:
            event = event._replace(content=event.content.after(reached.nth))
        if isinstance(event.content, EventBlock) and reached is not None:
            event = event._replace(content=event.content.after(reached))
        reached = event.position
        yield event


__all__ = ["BatchReport", "EventBlock", "Position", "StreamBatch", "StreamEvent", "StreamLander"]
