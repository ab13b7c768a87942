"""Holds requests until their events have landed; requests that wait together land together.

A commit costs about the same for one event as for hundreds, so the next events collect while one commit is made.
While the target fails, requests are held and tried again, and answered 503 after `--hold-seconds`: Debezium Server sends an
event five times within five seconds and then ends, but waits 60 seconds for each answer.

A client that posts has no position, so the receiver makes one: an event's number is the clock in µs, and above every number
of the table's stream. Both parts of its position are that number, because a format without positions of its own orders by it.
An event that is posted twice, as after a lost answer, lands twice: the merge takes it once.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone

from cdc_producers.http.answers import try_later
from cdc_producers.http.metrics import HttpMetrics
from cdc_producers.http.options import HttpOptions
from cdc_producers.reports import Reports
from cdc_producers.retrying import pauses
from cdc_producers.table_landing import TableLanding
from cdc_views.errors import TransientError
from cdc_views.landing import Position, StreamEvent, StreamLander, exists
from cdc_views.landing.redaction import without_values
from cdc_views.landing.targets import ProducerLog, StreamTarget
from cdc_views.rules.instants import micros

_BATCH_EVENTS = 2_000
"""Events per commit, give or take one request."""
_BATCH_BYTES = 16 << 20
_ATTEMPTS = 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(slots=True, eq=False)
class Arrival:
    """One posted event; `number` is 0 until it is first tried, `reason` explains why it went to quarantine."""

    content: bytes
    number: int = 0
    reason: str = ""


@dataclass(slots=True)
class TableWriter:
    """A writer of events to one table, used by one thread at a time."""

    table: StreamTarget
    stream: str
    _landing: TableLanding = field(init=False)
    _lander: StreamLander | None = None
    _last: int = 0

    def __post_init__(self) -> None:
        self._landing = TableLanding(self.table)

    def open(self) -> None:
        """Check the raw table if it exists; otherwise the first event creates it.
        Raises `UsageError` if the raw table is another table's, of another format, or of a newer version.
        """
        if self.table.raw is not None and exists(self.table.raw):
            self._opened()

    def land(self, events: Sequence[Arrival]) -> None:
        """Land events in this order, or put them into quarantine with a reason.
        Raises `EngineError` if the target fails or other writers keep committing first; some events may have landed then.
        """
        lander, pending = self._opened(), events
        self._number(event for event in events if not event.number)
        for _ in range(_ATTEMPTS):
            sent = {event.number: event for event in pending}
            content = [StreamEvent(Position(number, number), event.content) for number, event in sent.items()]
            report = lander.land(content, through=content[-1].position, now=datetime.now(timezone.utc))
            for rejection in report.rejections:
                sent[rejection.line].reason = without_values(rejection.reason, lander.raw.relation.schema)
            # a receiver of the same name has used later numbers: skipped events get new ones
            pending = pending[: report.skipped]
            if not pending:
                return
            self._last = max(self._last, (lander.position() or Position(0)).at)
            self._number(pending)
        raise TransientError(f"{self.table.name}: other receivers named as this one keep landing first; give each its own --name")

    def _opened(self) -> StreamLander:
        lander = self._landing.lander(self.stream)
        assert isinstance(lander, StreamLander), "the receiver lands in raw tables alone"
        if lander is not self._lander:
            lander.shown = sys.maxsize
            known = lander.position()
            self._last = max(self._last, known.at if known else 0)
            self._lander = lander
        return lander

    def _number(self, events: Iterable[Arrival]) -> None:
        now = micros(datetime.now(timezone.utc))
        for event in events:
            self._last = event.number = max(self._last + 1, now)


@dataclass(slots=True, eq=False)
class _Posted:
    events: list[Arrival]
    answer: asyncio.Future[dict[int, str]]
    since: float
    size: int


@dataclass(slots=True, eq=False)
class TableQueue:
    """One table's requests, in order of arrival; `writer` lands them in a thread."""

    writer: TableWriter
    metrics: HttpMetrics
    log: ProducerLog
    reports: Reports
    options: HttpOptions
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
        """Wait until the events have landed; return why some went to quarantine, by index.
        Raises `RefusedError` 503 after `hold_seconds`, or at once if the receiver stops; the events may have landed.
        """
        answer: asyncio.Future[dict[int, str]] = asyncio.get_running_loop().create_future()
        posted = _Posted([Arrival(content) for content in contents], answer, time.monotonic(), sum(map(len, contents)))
        self._posted.append(posted)
        self._has_some.set()
        if self._is_stopping and self.failure:
            self._give_back()
        try:
            return await asyncio.wait_for(asyncio.shield(answer), self.options.hold_seconds)
        except asyncio.TimeoutError:
            with suppress(ValueError):  # it is just being tried
                self._posted.remove(posted)
            raise self._unavailable() from None

    async def run(self) -> None:
        """Land requests until cancelled."""
        while True:
            await self._has_some.wait()
            if len(self._posted) < _BATCH_EVENTS:
                await asyncio.sleep(self.options.linger_ms / 1000)
            batch = self._taken()
            if not batch:
                continue
            events = [event for posted in batch for event in posted.events]
            try:
                await asyncio.to_thread(self.writer.land, events)
            except Exception as error:  # after any error, the sender still has the events
                await self._failed(batch, error)
            else:
                self._landed(batch)

    def stop(self) -> None:
        """Refuse the requests that wait for a failing target."""
        self._is_stopping = True
        if self.failure:
            self._give_back()

    def _taken(self) -> list[_Posted]:
        batch: list[_Posted] = []
        events = size = 0
        while self._posted and events < _BATCH_EVENTS and size < _BATCH_BYTES:
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
        waiting = [posted for posted in batch if time.monotonic() - posted.since < self.options.hold_seconds]
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
