"""The agent as one source: follows the node's commit log, and reads a snapshot of older data beside it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Event, Thread

from cdc_producers.cassandra.snapshot import SnapshotSource
from cdc_producers.metrics import Health
from cdc_producers.retrying import pauses
from cdc_producers.source import Emit, LostError, Source, SourceStatus, StoppedError
from cdc_views.errors import EngineError
from cdc_views.landing.targets import ProducerLog

_LOOK_EVERY = 1.0
_HEAD_START = 30.0
"""Seconds that the log waits for the snapshot. A longer snapshot runs beside it, since an unread log fills the node's disk."""


@dataclass
class SnapshotAndLog(Source):
    """The snapshot in one thread, the commit log in another."""

    snapshot: SnapshotSource
    log_source: Source
    log: ProducerLog
    health: Health
    _thread: Thread | None = None
    _failure: BaseException | None = None
    _is_settled: Event = field(default_factory=Event)

    def run(self, emit: Emit, stop: Event) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._read, args=(emit, stop), name="snapshot", daemon=True)
            self._thread.start()
            deadline = time.monotonic() + _HEAD_START
            while not self._is_settled.wait(0.05) and not stop.is_set() and time.monotonic() < deadline:
                pass
        if not stop.is_set():
            self.log_source.run(emit, stop)
        self._thread.join(1.0)
        if self._failure is not None:
            raise self._failure

    def _read(self, emit: Emit, stop: Event) -> None:
        """Read the snapshot, and again whenever it is due; retry errors that can pass, and end the agent at any other."""
        waits = pauses()
        while not stop.is_set():
            try:
                self.snapshot.look()
                self.snapshot.read_lists_again(emit)
                if self.snapshot.is_whole:
                    self.health.set("snapshot", "")
                    self._is_settled.set()
                    stop.wait(_LOOK_EVERY)
                    continue
                self.snapshot.run(emit, stop)
                self.health.set("snapshot", "")
                waits = pauses()
            except StoppedError:
                return
            except LostError as error:
                self._fail(error, stop)
            except EngineError as error:
                pause = next(waits)
                self.health.set("snapshot", str(error))
                self.log.warning(f"{error}; tried again in {pause:g} s, nothing is lost", part="snapshot")
                self._is_settled.set()
                stop.wait(pause)
            except BaseException as error:
                self._fail(error, stop)
        self._is_settled.set()

    def _fail(self, error: BaseException, stop: Event) -> None:
        self._failure = error
        stop.set()

    def keep_alive(self) -> None:
        self.log_source.keep_alive()

    def landed(self, token: object) -> None:
        self.log_source.landed(token)

    def status(self) -> SourceStatus:
        return self.log_source.status()

    def close(self) -> None:
        self.log_source.close()


@dataclass
class SnapshotOnly(Source):
    """A snapshot alone; the producer ends after it."""

    snapshot: SnapshotSource

    def run(self, emit: Emit, stop: Event) -> None:
        self.snapshot.run(emit, stop)
        stop.set()

    def status(self) -> SourceStatus:
        return self.snapshot.status()

    def close(self) -> None:
        self.snapshot.look()  # everything that was read has landed by now
