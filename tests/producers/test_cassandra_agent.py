"""Snapshot and log as one source: which waits for which, and what becomes of a failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("cassandra")

from cdc_producers import runtime
from cdc_producers.cassandra import PRODUCER
from cdc_producers.cassandra.agent import SnapshotAndLog, SnapshotOnly
from cdc_producers.cassandra.options import CassandraOptions, SnapshotMode
from cdc_producers.cassandra.snapshot import SnapshotSource
from cdc_producers.cassandra.source import CassandraSource
from cdc_producers.metrics import Health
from cdc_producers.source import Emit, Emitted, SourceStatus
from helpers.captured import Said
from helpers.producing import eventually

from cdc_views.errors import TransientError, UsageError
from cdc_views.landing.targets import shown_nowhere


@dataclass
class Fake:
    """A source that does one thing a run, and notes what it did."""

    name: str
    noted: list[str]
    does: list[Callable[[], None]] = field(default_factory=list)
    follows: bool = False
    is_whole: bool = False

    def run(self, emit: Emit, stop: Event) -> None:
        self.noted.append(self.name)
        if self.does:
            self.does.pop(0)()
        emit(Emitted())
        self.is_whole = True
        if self.follows:
            stop.wait(20)

    def status(self) -> SourceStatus:
        return SourceStatus(self.name)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@dataclass
class Agent:
    """An agent of fakes that runs in a thread."""

    snapshot: Fake
    health: Health = field(default_factory=Health)
    stop: Event = field(default_factory=Event)
    failures: list[BaseException] = field(default_factory=list)

    def start(self) -> Thread:
        log = Fake("log", self.snapshot.noted, follows=True)
        source = SnapshotAndLog(cast(SnapshotSource, self.snapshot), log, Said(), self.health)
        thread = Thread(target=self._run, args=(source,), daemon=True)
        thread.start()
        return thread

    def _run(self, source: SnapshotAndLog) -> None:
        try:
            source.run(lambda item: None, self.stop)
        except BaseException as error:
            self.failures.append(error)


def fails(error: Exception) -> Callable[[], None]:
    """What raises that."""

    def fail() -> None:
        raise error

    return fail


def test_the_log_is_followed_once_a_short_snapshot_is_whole() -> None:
    agent = Agent(Fake("snapshot", [], [lambda: time.sleep(0.3)]))
    thread = agent.start()
    time.sleep(0.1)
    assert agent.snapshot.noted == ["snapshot"]
    eventually(lambda: agent.snapshot.noted == ["snapshot", "log"], what="the log")
    agent.stop.set()
    thread.join(10)
    assert not agent.failures


def test_the_log_does_not_wait_for_a_snapshot_that_cannot_be_read_now() -> None:
    agent = Agent(Fake("snapshot", [], [fails(TransientError("no node answers"))]))
    agent.start()
    eventually(lambda: agent.snapshot.noted == ["snapshot", "log", "snapshot"], what="the log, and another attempt")
    eventually(lambda: agent.snapshot.is_whole and not agent.health.troubles, what="well again")
    agent.stop.set()


def test_what_waiting_does_not_mend_ends_the_agent() -> None:
    agent = Agent(Fake("snapshot", [], [fails(UsageError("no such table"))]))
    agent.start().join(10)
    assert agent.stop.is_set()
    assert [str(error) for error in agent.failures] == ["no such table"]


def test_a_snapshot_alone_ends_the_producer() -> None:
    stop = Event()
    SnapshotOnly(cast(SnapshotSource, Fake("snapshot", []))).run(lambda item: None, stop)
    assert stop.is_set()


@pytest.mark.parametrize(
    ("mode", "kind"),
    [(SnapshotMode.INITIAL, SnapshotAndLog), (SnapshotMode.ONLY, SnapshotOnly), (SnapshotMode.NEVER, CassandraSource)],
)
def test_an_agent_reads_snapshot_and_log_or_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: SnapshotMode, kind: type
) -> None:
    """A log alone reads no lists again."""
    runs: list[Any] = []
    monkeypatch.setattr(runtime, "Runtime", lambda *given, **_: runs.append(given[0]) or SimpleNamespace(run=lambda: None))
    options = CassandraOptions(work_folder=tmp_path, snapshot=mode, snapshot_rate=7)
    order: Any = SimpleNamespace(targets=[], log=Said(), progress=shown_nowhere)
    PRODUCER.run(order, options)
    (source,) = runs
    assert type(source) is kind
    assert mode is SnapshotMode.NEVER or source.snapshot.options == options.of_snapshot
