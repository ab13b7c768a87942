"""Events of a stream in bulk, as bytes or as rows: one object for each event would cost more than reading it."""

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
    """The place of an event in its stream. Both numbers are from 0 to 2^63 - 1, and `at` is compared first."""

    at: int
    nth: int = 0


@dataclass(frozen=True, slots=True)
class EventBlock:
    """Consecutive events of one stream; their positions ascend.

    Attributes:
        offsets: `Position.at` of each event.
        contents: Each event in the table's raw format, like a line of a file.
        size: Total bytes.
        numbers: `Position.nth` of each event; empty: all 0.
    """

    offsets: Sequence[int]
    contents: Sequence[bytes]
    size: int
    numbers: Sequence[int] = ()

    def __len__(self) -> int:
        return self.size

    @property
    def events(self) -> int:
        """Number of events."""
        return len(self.offsets)

    def after(self, position: Position) -> EventBlock:
        """Return the events after a position."""
        if not self.offsets or self.position(0) > position:
            return self
        first = bisect_right(range(self.events), position, key=self.position)
        contents = self.contents[first:]
        return EventBlock(self.offsets[first:], contents, sum(map(len, contents)), self.numbers[first:])

    def position(self, index: int) -> Position:
        """Return the position of an event."""
        return Position(self.offsets[index], self.numbers[index] if self.numbers else 0)


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows that a source decoded itself, from consecutive events of one segment of one table's log.

    Attributes:
        relation: The meaning of the columns; the schema may change before they land.
        table: The rows in order, with the columns of `relation` except `_landed_at`.
        events: Number of events that the rows come from.
        first: `_origin.position` of the first event.
    """

    relation: Relation
    table: pa.Table
    events: int
    first: int

    def __len__(self) -> int:
        """Approximate size in bytes."""
        return int(self.table.nbytes)

    def after(self, position: int) -> DecodedRows:
        """Return the rows of the events after a position in the segment."""
        if position < self.first:
            return self
        positions = pc.struct_field(self.table["_origin"], "position")
        table = self.table.filter(pc.greater(positions, position))
        left = pc.struct_field(table["_origin"], "position")
        return replace(self, table=table, events=pc.count_distinct(left).as_py(), first=pc.min(left).as_py() or 0)

    def facts(self, schema: TableSchema) -> list[Fact]:
        """Return the facts of the rows, without columns that `schema` lacks: a dropped column's cells never show (W6).

        Values have the types of `schema`: fields that a user type has gained are null.
        """
        return list(facts_of(replace(self.relation, schema=schema), self.table))

    def stamped(self, landed_at: int) -> pa.Table:
        """Return the rows with their landing time (µs)."""
        kind = pa.timestamp("us", tz="UTC")
        return self.table.append_column("_landed_at", pa.repeat(pa.scalar(landed_at, kind), self.table.num_rows))


class StreamEvent(NamedTuple):
    """One event in the table's raw format, or many events, or rows that a source decoded; `position` is the last event's."""

    position: Position
    content: bytes | DecodedRows | EventBlock

    @property
    def items(self) -> int:
        """The number of events; decoded rows count as one."""
        return self.content.events if isinstance(self.content, EventBlock) else 1


class StreamBatch(NamedTuple):
    """Ascending events of one stream. Once they land, the stream has landed up to `through`, including other tables' events.

    `note` lands with the position `through`: what a source needs besides two integers to read on; empty for nothing.
    """

    stream: str
    events: Sequence[StreamEvent]
    through: Position
    note: str = ""

    @property
    def items(self) -> int:
        """The number of events, counted like `StreamEvent.items`."""
        blocks = [content for _, content in self.events if isinstance(content, EventBlock)]
        return len(self.events) - len(blocks) + sum(block.events for block in blocks)


def are_single(events: Iterable[StreamEvent]) -> bool:
    """Whether all contents are single events that are not decoded yet."""
    return {type(content) for _, content in events} <= {bytes}


def one_by_one(events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    """Yield the events, with each block split into its events."""
    for event in events:
        if isinstance(event.content, EventBlock):
            block = event.content
            yield from (StreamEvent(block.position(index), content) for index, content in enumerate(block.contents))
        else:
            yield event


@dataclass(slots=True)
class Lines:
    """Consecutive events of some streams, by index, without an object per event; `numbers` are their `Position.nth`."""

    contents: list[bytes | DecodedRows] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    _offsets: list[int] = field(default_factory=list)
    _streams: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)

    def add(self, stream: str, events: Sequence[StreamEvent]) -> None:
        """Add events of a stream."""
        self._streams.append(stream)
        self._starts.append(len(self.contents))
        if are_single(events):  # the usual case; one by one takes four times as long
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
        """Return one event with its position."""
        return StreamEvent(Position(self._offsets[index], self.numbers[index]), self.contents[index])
