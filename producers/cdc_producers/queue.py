"""The queue between source and lander, bounded in rows and bytes; a faster source waits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition

from cdc_producers.source import Emitted, StoppedError


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may wait in memory, and when a batch lands: at the first limit of a batch that is reached.
    `look_seconds` is how often a source that waits for room gives a sign of life; `stop_seconds` is how long a stop waits for
    a target that is away, or for a source that ignores it.
    """

    queue_rows: int = 50_000
    queue_bytes: int = 64 << 20
    batch_rows: int = 20_000
    batch_bytes: int = 16 << 20
    batch_seconds: float = 1.0
    look_seconds: float = 1.0
    stop_seconds: float = 20.0


@dataclass
class BoundedQueue:
    """First in, first out; one thread puts, one takes. `rows` counts the waiting events, `bytes` is about their size."""

    limits: Limits
    rows: int = 0
    bytes: int = 0
    is_closed: bool = False
    pause: float = 0.0
    """Seconds that a batch which is not full waits at least, for the sake of other landers."""
    _items: deque[tuple[Emitted, int, int, float]] = field(default_factory=deque)
    """The waiting items, each with its rows, its bytes and the time since when it waits."""
    _changed: Condition = field(default_factory=Condition)

    @property
    def oldest(self) -> float:
        """Epoch seconds of the change that has waited longest; 0 if nothing waits or the time is unknown."""
        with self._changed:
            return self._items[0][0].happened if self._items else 0.0

    def put(self, item: Emitted, *, while_waiting: Callable[[], None]) -> None:
        """Add an item once there is room; an item larger than the whole queue goes in alone."""
        rows, size = item.weight
        while True:
            with self._changed:
                if self.is_closed:
                    raise StoppedError
                if not self._items or not self._is_full(rows, size):
                    self._items.append((item, rows, size, time.monotonic()))
                    self.rows += rows
                    self.bytes += size
                    if self._is_batch():  # waking the taker for less costs more than reading an event
                        self._changed.notify_all()
                    return
                has_changed = self._changed.wait(self.limits.look_seconds)
            if not has_changed:
                while_waiting()

    def close(self) -> None:
        """Accept no more items; waiting items can still be taken."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    def take(self) -> list[Emitted]:
        """Return the next batch once it is full or its first item has waited long enough; empty if nothing came."""
        with self._changed:
            begun = self._items[0][3] if self._items else time.monotonic()
            deadline = begun + max(self.limits.batch_seconds, self.pause)
            while not self._is_batch() and not self.is_closed:
                rest = deadline - time.monotonic()
                if rest <= 0 or not self._changed.wait(rest):
                    break
            batch: list[Emitted] = []
            rows, taken = 0, 0
            while self._items and rows < self.limits.batch_rows and taken < self.limits.batch_bytes:
                item, more, size, _ = self._items.popleft()
                rows += more
                taken += size
                batch.append(item)
            self.rows -= rows
            self.bytes -= taken
            self._changed.notify_all()
            return batch

    def _is_full(self, rows: int, size: int) -> bool:
        return self.rows + rows > self.limits.queue_rows or self.bytes + size > self.limits.queue_bytes

    def _is_batch(self) -> bool:
        return self.rows >= self.limits.batch_rows or self.bytes >= self.limits.batch_bytes
