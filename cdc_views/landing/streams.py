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
from operator import lt
from typing import NamedTuple

import pyarrow as pa

from cdc_views.erasing.forgotten import Forgotten
from cdc_views.erasing.sifting import NOT_KEPT
from cdc_views.errors import MalformedEventError, TransientError
from cdc_views.facts import Fact
from cdc_views.landing.committing import commit
from cdc_views.landing.decoding import Decoder, rows_of_events
from cdc_views.landing.delta import ATTEMPTS, ConflictError, recorded
from cdc_views.landing.following import FollowedTable
from cdc_views.landing.formed import Formed, FormReader, in_order
from cdc_views.landing.lander import micros
from cdc_views.landing.quarantine import BadEvent, put_once
from cdc_views.landing.report import SHOWN_REJECTIONS, Rejection
from cdc_views.landing.rows import DecodedRows
from cdc_views.raw.base import RawFormat
from cdc_views.relation import RawTable


class Position(NamedTuple):
    """Where an event stands in its stream; both from 0 to 2^63 - 1, compared in this order."""

    at: int
    nth: int = 0


_BEFORE_ALL = Position(-1, 0)


class StreamEvent(NamedTuple):
    """One event in the table's raw format, as a line of a file would have it, and where it stands.

    Or the rows of many, made by the source; the position is the last one's.
    """

    position: Position
    content: bytes | DecodedRows


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
    event: StreamEvent
    facts: list[Fact]


@dataclass(slots=True)
class StreamLander:
    """Lands one stream into one raw table, which is created if it is not there.

    Two landers of one stream may run at once: of two that commit, one finds the other's position and skips.
    `shown` is how many quarantined events a report names; None: a few.
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
        table = self._table.newest()
        at, nth = (recorded(table, self._name(part)) for part in Position._fields)
        return None if at is None else Position(at, nth or 0)

    def land(self, events: Sequence[StreamEvent], *, through: Position, now: datetime) -> BatchReport:
        """Land events, ascending, and record that all up to `through` has landed, whether or not it was of this table.

        Bad events go to quarantine first; a crash between the two commits repeats the batch, and quarantine knows them.

        Raises:
            TransientError: Other writers kept committing first, or a key of the batch was forgotten meanwhile.
        """
        decoder = Decoder(self.raw, self.format, micros(now), self.forgotten)
        for _ in range(ATTEMPTS):
            known = self.position()
            if known is not None and known >= through:
                return BatchReport(skipped=len(events))
            try:
                return self._attempt(decoder, events, known, through)
            except ConflictError:
                decoder = decoder.reread()
        raise TransientError(f"{self.stream}: other writers kept committing to {self.raw.location}; run it again")

    def _name(self, part: str) -> str:
        return f"stream:{self.stream}:{part}"

    def _attempt(self, decoder: Decoder, events: Sequence[StreamEvent], known: Position | None, through: Position) -> BatchReport:
        fresh = _after(known, events)
        made, others = self._made(decoder, fresh)
        formed = self._formed(decoder, others)
        taken = {index for part in formed for index in part.events}
        good, bad = self._decoded(decoder, ((i, event) for i, event in enumerate(others) if i not in taken))
        whole = [*made, *(others[i] for i in taken)]
        single, misfits = rows_of_events(decoder, [event.facts for event in good])
        places = [event.place for i, event in enumerate(good) if i not in misfits for _ in event.facts]
        rows = pa.concat_tables([in_order([*formed, Formed(single, places)], empty=single), *_tables(made, decoder)])
        bad += [self._bad(good[i].event, reason) for i, reason in misfits.items()]
        put_once(self.raw, bad, source=self.stream, format_name=self.format.name, landed_at=decoder.landed_at)
        commit(
            self._table.opened,
            rows,
            transactions={self._name("at"): through.at, self._name("nth"): through.nth},
            decoder=decoder,
            source=self.stream,
            check_forgotten=lambda: self._check_forgotten(decoder, good, others=whole),
        )
        self._table.note()
        told = [event for event in bad if not event.is_settled]
        shown = SHOWN_REJECTIONS if self.shown is None else self.shown
        return BatchReport(
            events=sum(map(_events, [*whole, *(each.event for each in good)])) - len(misfits),
            facts=rows.num_rows,
            skipped=len(events) - len(fresh),
            quarantined=len(told),
            rejections=tuple(Rejection(event.line, event.reason) for event in told[:shown]),
            forgotten=len(bad) - len(told),
        )

    def _made(self, decoder: Decoder, events: Sequence[StreamEvent]) -> tuple[list[StreamEvent], list[StreamEvent]]:
        """Return the events whose rows are as they should land, and the others.

        Rows of another schema, or where keys were forgotten, are read back into facts: they are looked at one by one.
        """
        if not any(isinstance(event.content, DecodedRows) for event in events):
            return [], list(events)
        made: list[StreamEvent] = []
        rest: list[StreamEvent] = []
        for event in events:
            rows = event.content
            is_made = isinstance(rows, DecodedRows) and not decoder.holds_back and rows.relation == decoder.raw.relation
            (made if is_made else rest).append(event)
        return made, rest

    def _formed(self, decoder: Decoder, events: Sequence[StreamEvent]) -> list[Formed]:
        """Return the rows of the events that are of a known form, by their indexes; none where keys were forgotten."""
        if decoder.holds_back:
            return []
        contents = [event.content for event in events if not isinstance(event.content, DecodedRows)]
        if len(contents) < len(events):
            return []
        return self._reader.read(contents, lines=[event.position.nth for event in events], landed_at=decoder.landed_at)

    def _decoded(self, decoder: Decoder, events: Iterable[tuple[int, StreamEvent]]) -> tuple[list[_Decoded], list[BadEvent]]:
        good: list[_Decoded] = []
        bad: list[BadEvent] = []
        for index, event in events:
            try:
                found = self._facts(decoder, event)
            except MalformedEventError as error:
                bad.append(self._bad(event, str(error)))
                continue
            facts, reason = self._sifted(decoder, event, found)
            if reason:
                bad.append(self._bad(event._replace(content=NOT_KEPT), reason, is_settled=True))
            if facts or not reason:
                good.append(_Decoded(index, event, facts))
        return good, bad

    @staticmethod
    def _facts(decoder: Decoder, event: StreamEvent) -> list[Fact]:
        if isinstance(event.content, DecodedRows):
            return event.content.facts(decoder.raw.relation.schema)
        return decoder.facts(event.content, line=event.position.nth, offset=event.position.at)

    @staticmethod
    def _sifted(decoder: Decoder, event: StreamEvent, facts: list[Fact]) -> tuple[list[Fact], str]:
        content = NOT_KEPT if isinstance(event.content, DecodedRows) else event.content
        return decoder.sifted(facts, content, line=event.position.nth, offset=event.position.at)

    def _check_forgotten(self, decoder: Decoder, landed: Iterable[_Decoded], *, others: Iterable[StreamEvent]) -> None:
        """Refuse to go on where a key of the batch was forgotten: its values are in a file by now, committed or not.

        `others` landed too, without their facts having been looked at.
        """
        reread = decoder.reread()
        found = [(each.event, each.facts) for each in landed]
        for event, facts in [*found, *((event, self._facts(reread, event)) for event in others)]:
            if self._sifted(reread, event, facts)[1]:
                place = f"{self.stream} at {event.position.at}:{event.position.nth}"
                raise TransientError(f"{place}: its key was forgotten while it landed; run that `forget` again")

    def _bad(self, event: StreamEvent, reason: str, *, is_settled: bool = False) -> BadEvent:
        at, nth = event.position
        identity = hashlib.sha256(f"{self.stream}\0{at}\0{nth}".encode()).hexdigest()
        content = NOT_KEPT if isinstance(event.content, DecodedRows) else event.content
        return BadEvent(identity, nth, at, at, reason, content, is_settled=is_settled)


def _tables(events: Iterable[StreamEvent], decoder: Decoder) -> list[pa.Table]:
    return [event.content.stamped(decoder.landed_at) for event in events if isinstance(event.content, DecodedRows)]


def _events(event: StreamEvent) -> int:
    return event.content.events if isinstance(event.content, DecodedRows) else 1


def _after(known: Position | None, events: Sequence[StreamEvent]) -> list[StreamEvent]:
    """Return what comes after a position; of rows that begin before it, and of rows that overlap, what is new."""
    positions = [known or _BEFORE_ALL, *(event.position for event in events)]
    if all(map(lt, positions, positions[1:])) and not any(isinstance(event.content, DecodedRows) for event in events):
        return list(events)
    return list(_new_of(known, events))


def _new_of(known: Position | None, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    reached = known
    for event in events:
        if reached is not None and event.position <= reached:
            continue
        if isinstance(event.content, DecodedRows) and reached is not None and reached.at == event.position.at:
            event = event._replace(content=event.content.after(reached.nth))
        reached = event.position
        yield event


__all__ = ["BatchReport", "Position", "StreamEvent", "StreamLander"]
