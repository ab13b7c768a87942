"""Builds one block of many events: an object for each event costs a producer more than reading it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_producers.source import Emitted
from cdc_views.landing import EventBlock, Position


@dataclass(slots=True)
class BlockBuilder:
    """Events of one table and stream that were read and not handed on yet, in the order of their positions.

    Attributes:
        happened: When the source committed the first of them, epoch seconds.
        size: Bytes of all of them.
    """

    happened: float
    size: int = 0
    _offsets: list[int] = field(default_factory=list)
    _contents: list[bytes] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)

    def add(self, position: Position, content: bytes) -> None:
        """Add an event that comes after those there are."""
        self._offsets.append(position.at)
        self._numbers.append(position.nth)
        self._contents.append(content)
        self.size += len(content)

    def built(self, table: str, stream: str) -> Emitted:
        """Return them as one thing to be emitted; there is at least one."""
        last = Position(self._offsets[-1], self._numbers[-1])
        alone = self._contents[0] if len(self._contents) == 1 else None
        content = alone if alone is not None else EventBlock(self._offsets, self._contents, self.size, self._numbers)
        return Emitted(table, stream, last, content, self.happened)
