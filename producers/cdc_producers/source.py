"""What a source is: it reads one log and emits events; the runtime lands them and says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import NamedTuple, Protocol

from cdc_views.errors import EngineError
from cdc_views.landing import EventBlock, Position
from cdc_views.landing.blocks import DecodedRows

_EACH = 70
"""Bytes that an event takes beside its own."""


class Emitted(NamedTuple):
    """One thing a source says, in the order of its log.

    Attributes:
        table: The table it is about, as in the project file; empty for a landmark of all of them.
        stream: The stream of that table whose positions these are.
        position: Its place in the log; positions of one table and stream ascend, and what comes again is left out.
        content: The event in the table's raw format; None where only the position has been reached. Or many events,
            or the rows of many, the last of them at the position.
        happened: When the source committed it, or the first of many, epoch seconds; 0 where it is not known.
        token: For `Source.landed`, once this and everything before it has landed; None: nothing to be said.
    """

    table: str = ""
    stream: str = ""
    position: Position = Position(0)
    content: bytes | DecodedRows | EventBlock | None = None
    happened: float = 0.0
    token: object = None

    @property
    def weight(self) -> tuple[int, int]:
        """Events that it counts for in the queue, and bytes it takes there, about."""
        content = self.content
        if isinstance(content, EventBlock):
            rows = max(1, content.events)
            return rows, len(content) + 200 + _EACH * (rows - 1)
        return 1, 200 if content is None else len(content) + 200

    def after(self, position: Position) -> Emitted:
        """Return what of it comes after a position before its own: of many events, those."""
        if not isinstance(self.content, EventBlock):
            return self
        return self._replace(content=self.content.after(position))


@dataclass(slots=True)
class BlockBuilder:
    """Builds one block of many events: an object for each event costs a producer more than reading it.

    They are of one table and stream, and come in the order of their positions.

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


Emit = Callable[[Emitted], None]
"""Blocks while the queue is full, calling `Source.keep_alive`; raises `StoppedError` once the runtime stops."""


class LostError(EngineError):
    """Changes are missing, or will be: waiting mends nothing, somebody has to decide."""


class StoppedError(Exception):
    """The runtime stops: whatever was being emitted comes again at the next start."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How far a source has come, as far as it knows.

    Attributes:
        position: Where its log was read to, as the source's tools print it.
        behind_bytes: Bytes of the log that were written and not yet read and landed; None: not known.
        held_bytes: Bytes the source's server keeps because this reader has not confirmed them; None: not known.
        behind_events: Events that were written and not yet read; None: not known.
        heard: When the server last said anything, epoch seconds.
        trouble: What is wrong with what is shown, though all that is read lands; empty where nothing is.
    """

    position: str = ""
    behind_bytes: int | None = None
    held_bytes: int | None = None
    heard: float = 0.0
    behind_events: int | None = None
    trouble: str = ""


class Source(Protocol):
    """A log of changes. All but `status` and `landed` are called by one thread.

    A class that inherits from it leaves out `keep_alive`, `landed` and `close` where there is nothing to do.
    """

    def run(self, emit: Emit, stop: Event) -> None:
        """Read from the last landed position on, until `stop` is set.

        Raises:
            LostError: Changes are missing; the producer ends.
            UsageError: Somebody has to change something; the producer ends.
            EngineError: Source or target are away; the runtime calls again after a while.
        """

    def keep_alive(self) -> None:
        """Tell the server that this reader lives; called about once a second while the queue is full."""
        return

    def landed(self, token: object) -> None:
        """Take note that everything up to the `Emitted` with this token is committed; called by the lander's thread."""
        return

    def status(self) -> SourceStatus:
        """Return how far the source has come; called by any thread."""

    def close(self) -> None:
        """Confirm what has landed, and let go of the connections. After `run` has returned."""
        return
