"""Limits of requests: per second, and at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cdc_producers.http.answers import try_later
from cdc_producers.http.metrics import HttpMetrics

_MOST_BUCKETS = 10_000


@dataclass(slots=True)
class Rate:
    """Token buckets by name: each fills at `per_second` up to `burst`; the longest unused are forgotten first.
    `clock` gives monotonic seconds.
    """

    per_second: float
    burst: float
    clock: Callable[[], float]
    _levels: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait(self, name: str, *, count: float = 1) -> float:
        """Take `count` and return 0, or take nothing and return the seconds until so many are there.
        A count above the burst passes once the bucket is full; the bucket then owes the rest.
        """
        now, needed = self.clock(), min(count, self.burst)
        level, since = self._levels.get(name, (self.burst, now))
        level = min(self.burst, level + (now - since) * self.per_second)
        if level < needed:
            return (needed - level) / self.per_second
        self._levels[name] = (level - count, now)
        self._levels.move_to_end(name)
        if len(self._levels) > _MOST_BUCKETS:
            self._levels.popitem(last=False)
        return 0.0


@dataclass(slots=True)
class RequestRoom:
    """A limit on the number and total bytes of requests at once; others are refused and may come again."""

    requests: int
    bytes: int
    metrics: HttpMetrics
    _requests: int = 0
    _bytes: int = 0

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Hold room for a request; raises `RefusedError` 503 if there is none."""
        if self._requests >= self.requests or (self._requests and self._bytes + size > self.bytes):
            raise try_later(503, "too many requests wait for their events to land; send it again later", seconds=1)
        self._change(1, size)
        try:
            yield
        finally:
            self._change(-1, -size)

    def _change(self, requests: int, size: int) -> None:
        self._requests += requests
        self._bytes += size
        self.metrics.waiting_requests.set(self._requests)
        self.metrics.waiting_bytes.set(self._bytes)
