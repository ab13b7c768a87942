"""The interface of a source: it reads one log and emits events; the runtime lands them and reports back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple, Protocol

from cdc_views.errors import EngineError
from cdc_views.landing import EventBlock, Position
from cdc_views.landing.blocks import DecodedRows

_EACH = 70
"""Bytes that an event takes in addition to its content."""


class Emitted(NamedTuple):
    """One item that a source emits, in the order of its log.

    Attributes:
        table: The table's name in the project file; empty for a landmark of all tables.
        stream: The table's stream that the position belongs to.
        position: The place in the log. Positions of a table and stream ascend; repeated ones are dropped.
        content: One event in the table's raw format, or a block of events or rows that ends at the position; None to
            report only that the position is reached.
        happened: Commit time of the (first) event at the source, epoch seconds; 0 if unknown.
        token: Passed to `Source.landed` once this item and everything before it has landed; None for no call.
        note: Lands with the position: what the source needs besides it to read on.
    """

    table: str = ""
    stream: str = ""
    position: Position = Position(0)
    content: bytes | DecodedRows | EventBlock | None = None
    happened: float = 0.0
    token: object = None
    note: str = ""

    @property
    def weight(self) -> tuple[int, int]:
        """Number of events, and about how many bytes they take in the queue."""
        content = self.content
        if isinstance(content, EventBlock):
            rows = max(1, content.events)
            return rows, len(content) + 200 + _EACH * (rows - 1)
        return 1, 200 if content is None else len(content) + 200

    def after(self, position: Position) -> Emitted:
        """Return the item without the events of its block up to `position`, which is before the item's own."""
        if not isinstance(self.content, EventBlock):
            return self
        return self._replace(content=self.content.after(position))


@dataclass(slots=True)
class BlockBuilder:
    """A builder of one block of one stream's events, in order: an object per event costs more than reading the event.
    `happened` is the commit time of the first event at the source, epoch seconds; `size` counts the bytes of all events.
    """

    happened: float
    size: int = 0
    _offsets: list[int] = field(default_factory=list)
    _contents: list[bytes] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)

    def add(self, position: Position, content: bytes) -> None:
        """Add an event, which comes after the earlier ones."""
        self._offsets.append(position.at)
        self._numbers.append(position.nth)
        self._contents.append(content)
        self.size += len(content)

    def built(self, table: str, stream: str, note: str = "") -> Emitted:
        """Return the events as one item; there must be at least one."""
        last = Position(self._offsets[-1], self._numbers[-1])
        alone = self._contents[0] if len(self._contents) == 1 else None
        content = alone if alone is not None else EventBlock(self._offsets, self._contents, self.size, self._numbers)
        return Emitted(table, stream, last, content, self.happened, note=note)


Emit = Callable[[Emitted], None]
"""Waits while the queue is full, calling `Source.keep_alive`; raises `StoppedError` once the runtime stops."""


class LostError(EngineError):
    """Changes are missing, or soon will be: waiting does not help, somebody has to decide."""


class StoppedError(Exception):
    """The runtime stops; the item that was being emitted comes again at the next start."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How far a source has read, as far as it knows.

    Attributes:
        position: The last position read, in the form that the source's tools print.
        behind_bytes: Bytes of the log that have not been read and landed yet; None if unknown.
        held_bytes: Bytes that the server keeps because this reader has not confirmed them; None if unknown.
        held_limit_bytes: So many held bytes make the server refuse writes, or drop changes; None if unknown, or without limit.
        behind_events: Events in the log that have not been read yet; None if unknown.
        heard: When the server last sent anything, epoch seconds.
        trouble: Why views may be wrong although everything that is read lands; empty if they are right.
    """

    position: str = ""
    behind_bytes: int | None = None
    held_bytes: int | None = None
    heard: float = 0.0
    behind_events: int | None = None
    trouble: str = ""
    held_limit_bytes: int | None = None


class Source(Protocol):
    """A log of changes; one thread calls all but `status` and `landed`. `keep_alive`, `landed` and `close` are optional."""

    def run(self, emit: Emit, stop: Event) -> None:
        """Read on from the last landed position until `stop` is set.

        Raises:
            LostError: Changes are missing; the producer ends.
            UsageError: Somebody has to change something; the producer ends.
            EngineError: Source or target are away; the runtime calls again later.
        """

    def keep_alive(self) -> None:
        """Tell the server that this reader lives; called about once a second while the queue is full."""
        return

    def landed(self, token: object) -> None:
        """Note that everything up to this token's `Emitted` is committed; called by the lander's thread."""
        return

    def status(self) -> SourceStatus:
        """Return how far the source has read; any thread may call it."""

    def close(self) -> None:
        """Confirm what has landed, and close the connections; called after `run` has returned."""
        return
