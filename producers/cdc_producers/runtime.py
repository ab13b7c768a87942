"""The runtime of every producer: moves a source's events through a bounded queue into raw tables.

One thread reads the source, one lands. Each tries again after a failure, after longer and longer pauses. Rows and position land
in one commit, so nothing is lost and nothing lands twice.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from threading import Thread

from cdc_producers.metrics import Health, Metrics, serving
from cdc_producers.queue import BoundedQueue, Limits
from cdc_producers.reports import Reports, reporting
from cdc_producers.retrying import LONGEST_PAUSE, pauses
from cdc_producers.source import Emitted, LostError, Source, StoppedError
from cdc_producers.table_landing import TableLanding
from cdc_views.errors import CdcViewsError, CheckFailedError, EngineError
from cdc_views.landing import BatchReport, Position, StreamBatch, StreamEvent, StreamLander
from cdc_views.landing.redaction import without_values
from cdc_views.landing.targets import ProducerOrder

_FOLLOW_EVERY = 10.0
"""Seconds between two updates of an applied view."""
_NO_LOGS = "snapshot", "lists:"
"""Beginnings of the names of streams whose positions are no places in a log."""
_COLLECTED_AFTER = 50_000, 20, 100


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Run the cycle collector less often: events form no cycles, and scanning the waiting ones took a third of the time."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@dataclass
class Runtime:
    """A run of one source into its tables, until it is stopped or a failure needs somebody to act."""

    source: Source
    order: ProducerOrder
    metrics: Metrics
    limits: Limits = field(default_factory=Limits)
    health: Health = field(default_factory=Health)
    _queue: BoundedQueue = field(init=False)
    _emitted: dict[tuple[str, str], Position] = field(default_factory=dict)
    _landings: dict[str, TableLanding] = field(init=False)
    _has_answered: bool = False
    _unseen: set[str] = field(default_factory=set)
    _pauses: dict[str, float] = field(default_factory=dict)
    _followed: float = 0.0
    _oldest: float = 0.0
    _failure: BaseException | None = None
    _reports: Reports = field(default_factory=lambda: Reports(""))

    def __post_init__(self) -> None:
        self._queue = BoundedQueue(self.limits)
        self._landings = {target.name: TableLanding(target) for target in self.order.targets}
        self.metrics.expect(self._landings, parts=("source", "target"))

    def run(self) -> None:
        """Land until `order.stop` is set; everything read by then lands first."""
        with reporting(self.metrics.source, os.environ) as self._reports, collecting_seldom():
            try:
                self._run()
            except BaseException as error:
                self._reports.error(error, part="producer", is_fatal=True)
                raise

    def _run(self) -> None:
        with serving(self.order.listen, self.metrics, self.health, refresh=self._refresh) as address:
            if address:
                self.order.log.info(f"metrics: {address}/metrics, health: {address}/healthz", address=address)
            reader = Thread(target=self._read, name="source", daemon=True)
            reader.start()
            try:
                self._land_until_stopped(reader)
            finally:
                self.order.stop.set()
                self._queue.close()
                reader.join(1.0)
                with suppress(EngineError):
                    self.source.close()
        if self._failure is not None:
            raise self._failure

    def _read(self) -> None:
        stop, waits, since = self.order.stop, pauses(), time.monotonic()
        while not stop.is_set():
            begun = time.monotonic()
            try:
                self.source.run(self._emit, stop)
            except StoppedError:
                return
            except LostError as error:
                self._fail(error)
            except EngineError as error:
                if time.monotonic() - begun > LONGEST_PAUSE:  # it was at work, though it may have emitted nothing yet
                    waits, since = pauses(), time.monotonic()
                if self._is_in_vain(time.monotonic() - since):
                    self._fail(_unanswered(error, self.order.connect_seconds))
                else:
                    self._wait("source", error, next(waits))
            except BaseException as error:
                self._fail(error)

    def _is_in_vain(self, seconds: float) -> bool:
        """Whether the source was tried for so long and never answered: its address is wrong rather than the server away."""
        self._has_answered = self._has_answered or self.source.status().heard > 0
        return not self._has_answered and 0 < self.order.connect_seconds <= seconds

    def _fail(self, error: BaseException) -> None:
        """End the run; everything read so far lands first."""
        self._failure = error
        self.order.stop.set()

    def _emit(self, item: Emitted) -> None:
        """Queue an item unless it was queued before: after a reconnect, a source repeats everything unconfirmed."""
        self._has_answered = True
        if "source" in self.health.troubles:
            self.health.set("source", "")
            self.order.log.info("the source is followed again", part="source")
        key = item.table, item.stream
        known = self._emitted.get(key)
        if known is not None:
            if item.position <= known:
                return
            item = item.after(known)
        self._queue.put(item, while_waiting=self.source.keep_alive)
        if item.table:
            self._emitted[key] = item.position

    def _land_until_stopped(self, reader: Thread) -> None:
        deadline = None
        while True:
            if self.order.stop.is_set():
                # nothing is lost by leaving a hanging source: its events come again
                deadline = deadline or time.monotonic() + self.limits.stop_seconds
                if not reader.is_alive() or time.monotonic() > deadline:
                    self._queue.close()
            if batch := self._queue.take():
                self._oldest = next((item.happened for item in batch if item.happened), 0.0)
                self._land(batch)
                self._oldest = 0.0
                self._follow()
            elif self._queue.is_closed:
                self._follow(is_last=True)
                return

    def _land(self, batch: list[Emitted]) -> None:
        bad = sum(self._land_table(table, batches) for table, batches in _grouped(batch).items())
        self._queue.pause = max(self._pauses.values(), default=0.0)
        tokens = [item.token for item in batch if item.token is not None]
        if tokens:
            self.source.landed(tokens[-1])
        if bad and self.order.exits_on_error:
            raise CheckFailedError(f"{bad:,} events went to quarantine, and --on-error is exit; mend the cause and `replay` them")

    def _land_table(self, table: str, batches: list[StreamBatch]) -> int:
        bad = 0
        while batches:
            report, count = self._land_some(table, batches)
            self._pauses[table] = report.pause
            self._count(table, report, batches[count - 1])
            if report.facts:
                self._unseen.add(table)
            bad += report.quarantined
            batches = batches[count:]
        return bad

    def _land_some(self, table: str, batches: list[StreamBatch]) -> tuple[BatchReport, int]:
        landing, waits, stopping_since = self._landings[table], pauses(), 0.0
        while True:
            try:
                landed = _land_first(landing, batches)
                if "target" in self.health.troubles:
                    self.health.set("target", "")
                    self.order.log.info("the target takes rows again", part="target")
                return landed
            except EngineError as error:
                landing.landers.clear()
                if self.order.stop.is_set():
                    stopping_since = stopping_since or time.monotonic()
                    if time.monotonic() - stopping_since > self.limits.stop_seconds:
                        raise
                self._wait("target", error, min(next(waits), 1.0) if stopping_since else next(waits))

    def _follow(self, *, is_last: bool = False) -> None:
        """Let views show new events, now and then; a failure here does not affect landing."""
        if not is_last and time.monotonic() - self._followed < _FOLLOW_EVERY:
            return
        self._followed = time.monotonic()
        for target in self.order.targets:
            if target.name in self._unseen:
                self._unseen.discard(target.name)
                try:
                    target.follow()
                except CdcViewsError as error:
                    self.order.log.warning(f"{target.name}: the view does not show yet what has landed: {error}")

    def _wait(self, part: str, error: Exception, pause: float) -> None:
        message = str(error).strip()
        self.health.set(part, message)
        self.metrics.failures(part).inc()
        self._reports.error(error, part=part)
        self.order.log.warning(f"{message}; tried again in {pause:g} s, nothing is lost", part=part, kind=type(error).__name__)
        if self.order.stop.is_set():
            time.sleep(min(pause, 1.0))
        else:
            self.order.stop.wait(pause)

    def _count(self, table: str, report: BatchReport, last: StreamBatch) -> None:
        self.metrics.events(table).inc(report.events)
        self.metrics.facts(table).inc(report.facts)
        self.metrics.skipped(table).inc(report.skipped)
        self.metrics.quarantined(table).inc(report.quarantined)
        if not last.stream.startswith(_NO_LOGS):
            self.metrics.position(table).set(last.through.at)
        raw = self._landings[table].raw
        for rejection in report.rejections:
            # the event's values are only in quarantine
            reason = without_values(rejection.reason, raw.relation.schema) if raw is not None else "see quarantine"
            self.order.log.warning(f"{table}: quarantined: {reason}", table=table)
        if report.quarantined:
            self.order.log.warning(
                f"{table}: {report.quarantined:,} events went to quarantine; mend the cause, then `cdc-views replay {table}`",
                table=table,
                quarantined=report.quarantined,
            )
            self._reports.quarantined(table, report.quarantined)

    def _refresh(self) -> None:
        status = self.source.status()
        self.health.set("tables", status.trouble)
        self.metrics.queue_rows().set(self._queue.rows)
        self.metrics.queue_bytes().set(self._queue.bytes)
        self.metrics.lag_seconds().set(self._lag(status.heard))
        if status.behind_bytes is not None:
            self.metrics.lag_bytes().set(status.behind_bytes)
        if status.behind_events is not None:
            self.metrics.lag_events().set(status.behind_events)
        if status.held_bytes is not None:
            self.metrics.held_bytes().set(status.held_bytes)
        if status.held_limit_bytes is not None:
            self.metrics.held_limit().set(status.held_limit_bytes)

    def _lag(self, heard: float) -> float:
        """Return the seconds since the oldest change that has not landed; if all have, since the server was last heard."""
        since = self._oldest or self._queue.oldest or heard
        return max(0.0, time.time() - since) if since else 0.0


def _unanswered(error: EngineError, seconds: float) -> EngineError:
    told = f"nothing could be read for {seconds:g} s, so it ends; --connect-timeout 0 goes on trying"
    return EngineError(f"{str(error).strip()}; {told}")


def _land_first(landing: TableLanding, batches: Sequence[StreamBatch]) -> tuple[BatchReport, int]:
    """Land the first batch and all others that fit into the same commit; also return how many batches landed."""
    stream, events, through, note = batches[0]
    lander, now = landing.lander(stream), datetime.now(timezone.utc)
    if isinstance(lander, StreamLander):
        return lander.land_together(batches, now=now), len(batches)
    return lander.land(events, through=through, now=now, note=note), 1


def _grouped(batch: Sequence[Emitted]) -> dict[str, list[StreamBatch]]:
    found: dict[tuple[str, str], list[Emitted]] = {}
    for item in batch:
        if item.table:
            found.setdefault((item.table, item.stream), []).append(item)
    grouped: dict[str, list[StreamBatch]] = {}
    for (table, stream), items in found.items():
        events = [StreamEvent(item.position, item.content) for item in items if item.content is not None]
        grouped.setdefault(table, []).append(StreamBatch(stream, events, items[-1].position, items[-1].note))
    return grouped
