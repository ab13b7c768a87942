"""Events of a stream handed on many at once, as bytes or as rows: an object for each costs more than to read it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact
from cdc_views.storage.relation import Relation
from cdc_views.storage.relation_read import facts_of


class Position(NamedTuple):
    """The place of an event in its stream; both from 0 to 2^63 - 1, compared in this order."""

    at: int
    nth: int = 0


@dataclass(frozen=True, slots=True)
class EventBlock:
    """Events of one stream, one after the other.

    Attributes:
        offsets: `Position.at` of each.
        contents: Each in the table's raw format, like a line of a file.
        size: Bytes of all of them.
        numbers: `Position.nth` of each; empty: 0. Positions ascend.
    """

    offsets: Sequence[int]
    contents: Sequence[bytes]
    size: int
    numbers: Sequence[int] = ()

    def __len__(self) -> int:
        """Bytes it takes."""
        return self.size

    @property
    def events(self) -> int:
        """How many events it holds."""
        return len(self.offsets)

    def after(self, position: Position) -> EventBlock:
        """Return the events after a position."""
        if not self.offsets or self.position(0) > position:
            return self
        first = bisect_right(range(self.events), position, key=self.position)
        contents = self.contents[first:]
        return EventBlock(self.offsets[first:], contents, sum(map(len, contents)), self.numbers[first:])

    def position(self, index: int) -> Position:
        """Return the place of an event."""
        return Position(self.offsets[index], self.numbers[index] if self.numbers else 0)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows that a source has made by itself of consecutive events of one segment of one table's log.

    Attributes:
        relation: What the columns mean; the schema may have changed by the time they land.
        table: The rows in order, with the columns of `relation` but `_landed_at`.
        events: How many events they are of.
        first: `_origin.position` of the first event.
    """

    relation: Relation
    table: pa.Table
    events: int
    first: int

    def __len__(self) -> int:
        """Bytes it takes, about."""
        return int(self.table.nbytes)

    def after(self, position: int) -> DecodedRows:
        """Return the rows of the events after a position of the segment."""
        if position < self.first:
            return self
        positions = pc.struct_field(self.table["_origin"], "position")
        table = self.table.filter(pc.greater(positions, position))
        left = pc.struct_field(table["_origin"], "position")
        return replace(self, table=table, events=pc.count_distinct(left).as_py(), first=pc.min(left).as_py() or 0)

    def facts(self, schema: TableSchema) -> list[Fact]:
        """Return the facts of the rows, as far as columns are still of a schema: a dropped column's cells never show (W6).

        Values are those of the schema's types: a user type may have gained fields meanwhile, which are null.
        """
        return list(facts_of(replace(self.relation, schema=schema), self.table))

    def stamped(self, landed_at: int) -> pa.Table:
        """Return the rows with their landing time (µs)."""
        kind = pa.timestamp("us", tz="UTC")
        return self.table.append_column("_landed_at", pa.repeat(pa.scalar(landed_at, kind), self.table.num_rows))


class StreamEvent(NamedTuple):
    """One event in the table's raw format, like a line of a file, and its place.

    Or many, or the rows of many that the source made by itself; the position is the last one's.
    """

    position: Position
    content: bytes | DecodedRows | EventBlock

    @property
    def items(self) -> int:
        """How many of what a source hands on by itself it is; rows are one, whatever number of events they are of."""
        return self.content.events if isinstance(self.content, EventBlock) else 1


class StreamBatch(NamedTuple):
    """Events of one stream, ascending; once they have landed, all up to `through` has, whether or not it was of this table."""

    stream: str
    events: Sequence[StreamEvent]
    through: Position

    @property
    def items(self) -> int:
        """How many events it has, as `StreamEvent.items`."""
        blocks = [content for _, content in self.events if isinstance(content, EventBlock)]
        return len(self.events) - len(blocks) + sum(block.events for block in blocks)


def are_single(events: Iterable[StreamEvent]) -> bool:
    """Whether each is one event by itself, to be decoded."""
    return {type(content) for _, content in events} <= {bytes}


def one_by_one(events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    """Yield the events, those of blocks each by itself."""
    for event in events:
        if isinstance(event.content, EventBlock):
            block = event.content
            yield from (StreamEvent(block.position(index), content) for index, content in enumerate(block.contents))
        else:
            yield event


@dataclass(slots=True)
class Lines:
    """Events of some streams one after the other, by their index; what blocks hold has no objects of its own.

    Attributes:
        contents: Of each event.
        numbers: `Position.nth` of each.
    """

    contents: list[bytes | DecodedRows] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    _streams: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    def add(self, stream: str, events: Sequence[StreamEvent]) -> None:
        """Add a stream's events."""
        self._streams.append(stream)
        self._starts.append(len(self.contents))
        if are_single(events):  # the most of all; one by one takes four times as long
            self.contents += [content for _, content in events if not isinstance(content, EventBlock)]
            self._offsets += [position.at for position, _ in events]
            self.numbers += [position.nth for position, _ in events]
            return
        for (at, nth), content in events:
            if isinstance(content, EventBlock):
                self.contents += content.contents
                self._offsets += content.offsets
                self.numbers += content.numbers or [0] * content.events
            else:
                self.contents.append(content)
                self._offsets.append(at)
                self.numbers.append(nth)

    def __len__(self) -> int:
        return len(self.contents)

    def stream(self, index: int) -> str:
        """Return the stream of an event."""
        return self._streams[bisect_right(self._starts, index) - 1]

    def event(self, index: int) -> StreamEvent:
        """Return an event by itself."""
        return StreamEvent(Position(self._offsets[index], self.numbers[index]), self.contents[index])
