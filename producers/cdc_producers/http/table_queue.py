"""Requests wait here until their events have landed: those that wait together are landed together.

A commit costs about the same for one event as for hundreds, so while one is made, the next collects.
Where the target fails, requests are held and tried again, and answered 503 once they have waited `hold` seconds:
Debezium Server sends an event five times within as many seconds and then ends, but waits 60 seconds for an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from cdc_producers.http.answers import try_later
from cdc_producers.http.metrics import HttpMetrics
from cdc_producers.http.writing import BATCH_BYTES, BATCH_EVENTS, Arrival, TableWriter
from cdc_producers.reports import Reports
from cdc_producers.retrying import pauses
from cdc_views.landing.targets import ProducerLog

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(slots=True, eq=False)
class _Posted:
    """The events of one request for one table."""

    events: list[Arrival]
    answer: asyncio.Future[dict[int, str]]
    since: float
    size: int


@dataclass(slots=True)
class RequestRoom:
    """How many requests, of how many bytes in all, are taken in at once; more are told to come again."""

    requests: int
    bytes: int
    metrics: HttpMetrics
    _requests: int = 0
    _bytes: int = 0

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Hold room for a request; raises `RefusedError` 503 where there is none."""
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


@dataclass(slots=True, eq=False)
class TableQueue:
    """One table's requests, in the order they came; `writer` lands them, in a thread.

    `linger`: seconds to wait for more before a batch is landed; `hold`: after which what could not land is given back.
    """

    writer: TableWriter
    metrics: HttpMetrics
    log: ProducerLog
    linger: float
    hold: float
    reports: Reports
    failure: str = ""
    _posted: deque[_Posted] = field(default_factory=deque)
    _has_some: asyncio.Event = field(default_factory=asyncio.Event)
    _is_stopping: bool = False
    _pauses: Iterator[float] = field(default_factory=lambda: pauses(_FIRST_PAUSE, _LONGEST_PAUSE))
    _pause: float = _FIRST_PAUSE

    @property
    def name(self) -> str:
        """The table's name."""
        return self.writer.table.name

    async def put(self, contents: Sequence[bytes]) -> dict[int, str]:
        """Return once the events have landed: why some went to quarantine, by index.

        Raises:
            RefusedError: 503, after `hold` seconds, or at once where the receiver stops. They may have landed.
        """
        answer: asyncio.Future[dict[int, str]] = asyncio.get_running_loop().create_future()
        posted = _Posted([Arrival(content) for content in contents], answer, time.monotonic(), sum(map(len, contents)))
        self._posted.append(posted)
        self._has_some.set()
        if self._is_stopping and self.failure:
            self._give_back()
        try:
            return await asyncio.wait_for(asyncio.shield(answer), self.hold)
        except asyncio.TimeoutError:
            with suppress(ValueError):  # it is being tried at the moment
                self._posted.remove(posted)
            raise self._unavailable() from None

    async def run(self) -> None:
        """Land what comes, until cancelled."""
        while True:
            await self._has_some.wait()
            if len(self._posted) < BATCH_EVENTS:
                await asyncio.sleep(self.linger)
            batch = self._taken()
            if not batch:
                continue
            events = [event for posted in batch for event in posted.events]
            try:
                await asyncio.to_thread(self.writer.land, events)
            except Exception as error:  # whatever it is, the sender still has the events
                await self._failed(batch, error)
            else:
                self._landed(batch)

    def stop(self) -> None:
        """Give back what waits for a target that fails: nobody should wait for it now."""
        self._is_stopping = True
        if self.failure:
            self._give_back()

    def _taken(self) -> list[_Posted]:
        batch: list[_Posted] = []
        events = size = 0
        while self._posted and events < BATCH_EVENTS and size < BATCH_BYTES:
            posted = self._posted.popleft()
            batch.append(posted)
            events += len(posted.events)
            size += posted.size
        if not self._posted:
            self._has_some.clear()
        return batch

    def _landed(self, batch: Sequence[_Posted]) -> None:
        if self.failure:
            self.log.info(f"{self.name}: lands again", table=self.name)
            self.failure, self._pause, self._pauses = "", _FIRST_PAUSE, pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        events = quarantined = 0
        for posted in batch:
            reasons = {index: event.reason for index, event in enumerate(posted.events) if event.reason}
            events += len(posted.events) - len(reasons)
            quarantined += len(reasons)
            self.metrics.waited.observe(time.monotonic() - posted.since)
            if not posted.answer.done():
                posted.answer.set_result(reasons)
        self.metrics.landed(self.name, events=events, quarantined=quarantined)

    async def _failed(self, batch: Sequence[_Posted], error: Exception) -> None:
        if not self.failure:
            self.log.warning(f"{self.name}: cannot land, tries again: {type(error).__name__}: {error}", table=self.name)
        self.failure = type(error).__name__
        self.reports.error(error, part=self.name)
        self.metrics.failed(self.name)
        waiting = [posted for posted in batch if time.monotonic() - posted.since < self.hold]
        self._posted.extendleft(reversed(waiting))
        if self._posted:
            self._has_some.set()
        if self._is_stopping:
            self._give_back()
        self._pause = next(self._pauses)
        await asyncio.sleep(self._pause)

    def _give_back(self) -> None:
        while self._posted:
            posted = self._posted.popleft()
            if not posted.answer.done():
                posted.answer.set_exception(self._unavailable())

    def _unavailable(self) -> Exception:
        why = "its raw table cannot be written to" if self.failure else "it takes long"
        message = f"{self.name}: the events have not landed yet, as {why}; send them again (the receiver's log says more)"
        return try_later(503, message, seconds=self._pause)
