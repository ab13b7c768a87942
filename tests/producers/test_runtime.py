"""The common runtime: bounded, each event once, whatever fails on either side; with a source in memory."""

from __future__ import annotations

import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from cdc_producers.metrics import Metrics
from cdc_producers.queue import BoundedQueue, Limits
from cdc_producers.retrying import pauses
from cdc_producers.runtime import Runtime
from cdc_producers.source import Emit, SourceStatus, StoppedError
from helpers.captured import Said
from helpers.memory_source import BATCHES, TABLE, Memory, Target, emitted, runtime
from helpers.producing import eventually
from helpers.tiny_project import SCHEMA, event, landed_ids, quarantined, raw_table
from services.account import free_port

from cdc_views.errors import CheckFailedError, EngineError, TransientError, UsageError
from cdc_views.landing import BatchReport, Position, pipeline
from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.schema import Column
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.relation import RawTable


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    return raw_table(tmp_path)


def test_what_was_read_lands_before_it_stops(raw: RawTable) -> None:
    source = Memory([emitted(i) for i in range(1, 31)])
    runtime(source, raw).run()
    assert landed_ids(raw) == list(range(1, 31))
    assert source.confirmed == 30


@pytest.mark.heavy
def test_a_source_that_breaks_is_read_again_and_nothing_lands_twice(raw: RawTable) -> None:
    source = Memory([emitted(i) for i in range(1, 21)], troubles=[TransientError("gone"), TransientError("gone again")])
    runner = runtime(source, raw)
    runner.run()
    assert source.runs == 3
    assert landed_ids(raw) == list(range(1, 21))
    assert sum("gone" in line and "nothing is lost" in line for line in runner.order.log.lines) == 2  # type: ignore[attr-defined]


def test_a_source_that_never_answers_ends_the_run_and_one_that_answered_is_waited_for(raw: RawTable) -> None:
    source = Memory([emitted(1)], troubles=[TransientError("no such host")] * 99)
    source.status = SourceStatus  # type: ignore[method-assign]  # never heard
    runner = runtime(source, raw, connect_seconds=0.8)
    begun = time.monotonic()
    with pytest.raises(EngineError, match=r"no such host; nothing could be read for 0\.8 s, so it ends") as told:
        runner.run()
    assert told.value.exit_code == 3
    assert 0.8 <= time.monotonic() - begun < 10
    assert source.runs == 3
    source.troubles, source.log = source.troubles[:3], [emitted(i) for i in range(1, 5)]
    source.runs = 0
    runtime(source, raw, connect_seconds=0.1).run()  # two events come before each outage
    assert (source.runs, landed_ids(raw)) == (4, [1, 2, 3, 4])


def test_a_target_that_is_away_is_waited_for(raw: RawTable, monkeypatch: pytest.MonkeyPatch) -> None:
    real, attempts = pipeline.appended, []

    def away(*args: Any, **options: Any) -> Any:
        attempts.append(1)
        if len(attempts) <= 2:
            raise EngineError("disk full")
        return real(*args, **options)

    monkeypatch.setattr(pipeline, "appended", away)
    monkeypatch.setattr("cdc_producers.runtime.pauses", lambda: pauses(first=0.05))
    source = Memory([emitted(i) for i in range(1, 11)])
    runtime(source, raw).run()
    assert landed_ids(raw) == list(range(1, 11))


@pytest.mark.heavy
def test_a_raw_table_that_vanishes_is_not_made_anew(raw: RawTable) -> None:
    source = Memory([emitted(i) for i in range(1, 5)])
    runner = runtime(source, raw, stop_seconds=1.0)

    def vanish() -> None:
        while source.confirmed < 4:
            time.sleep(0.01)
        Path(raw.location).rename(raw.location + "-away")
        runner._emit(emitted(9))
        runner.order.stop.set()

    source.at_end = vanish
    with pytest.raises(EngineError, match="the raw table is gone") as told:
        runner.run()
    assert told.value.exit_code == 3
    Path(raw.location + "-away").rename(raw.location)
    assert landed_ids(raw) == [1, 2, 3, 4]
    assert source.confirmed == 4


@pytest.mark.heavy
@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_raw_table_that_comes_back_gets_what_waited(raw: RawTable, monkeypatch: pytest.MonkeyPatch, is_stopping: bool) -> None:
    monkeypatch.setattr("cdc_producers.runtime.pauses", lambda: pauses(first=0.01))
    source, there, away = Memory([emitted(i) for i in range(1, 5)]), Path(raw.location), Path(raw.location + "-away")
    runner = runtime(source, raw)

    def vanish() -> None:
        eventually(lambda: source.confirmed == 4)
        there.rename(away)
        if is_stopping:
            runner.order.stop.set()
        runner._emit(emitted(9))
        eventually(lambda: is_stopping or source.confirmed == 9)
        runner.order.stop.set()

    def told(message: str, **_: Any) -> None:
        if "the raw table is gone" in message and away.exists():
            away.rename(there)

    source.at_end, runner.order.log.warning = vanish, told  # type: ignore[method-assign]
    runner.run()
    assert (landed_ids(raw), source.confirmed) == ([1, 2, 3, 4, 9], 9)


@pytest.mark.parametrize("exits", [False, True])
def test_a_bad_event_goes_to_quarantine_and_ends_the_run_only_if_asked(raw: RawTable, exits: bool) -> None:
    bad = event(2, partition={"id": "hunter2"}).encode()
    source = Memory([emitted(1), emitted(2, content=bad), emitted(3)])
    runner = runtime(source, raw, exits_on_error=exits)
    if exits:
        with pytest.raises(CheckFailedError, match="went to quarantine"):
            runner.run()
    else:
        runner.run()
    assert landed_ids(raw) == [1, 3]
    assert len(quarantined(raw)) == 1
    assert source.confirmed == 3
    told = str(runner.order.log.lines)  # type: ignore[attr-defined]
    assert ("is not a int" in told, "hunter2" in told) == (True, False)


def test_a_schema_that_changed_is_that_of_the_next_batch(raw: RawTable, tmp_path: Path) -> None:
    source = Memory([emitted(1)])
    runner = runtime(source, raw)
    cells = [{"column": "later", "written": 2, "value": "x"}]
    told = event(2, rows=[{"kind": "row", "clustering": {"line": 0}, "cells": cells}]).encode()

    def changes() -> None:
        eventually(lambda: source.confirmed == 1)
        target: Any = runner._landings[TABLE].target
        target.raw = raw_table(tmp_path, replace(SCHEMA, columns=(*SCHEMA.columns, Column("later", Scalar(Kind.TEXT)))))
        target.version = lambda: 1
        runner._emit(emitted(2, content=told))
        runner.order.stop.set()

    source.at_end = changes
    runner.run()
    assert landed_ids(raw) == [1, 2]


def test_what_somebody_must_change_at_the_target_ends_it_with_exit_code_2(raw: RawTable, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Mock(side_effect=UsageError("another producer has taken over"))
    monkeypatch.setattr(pipeline, "appended", attempts)
    with pytest.raises(UsageError, match="has taken over") as told:
        runtime(Memory([emitted(1)]), raw).run()
    assert (told.value.exit_code, attempts.call_count) == (2, 1)


def test_what_nobody_expected_ends_it_with_that_error(raw: RawTable) -> None:
    source = Memory([emitted(i) for i in range(1, 9)], troubles=[RuntimeError("a bug")])
    with pytest.raises(RuntimeError, match="a bug"):
        runtime(source, raw).run()
    assert landed_ids(raw) == [1, 2, 3, 4]


@pytest.mark.heavy
def test_a_source_that_hangs_does_not_keep_it_from_stopping(raw: RawTable) -> None:
    source = Memory([emitted(1)])
    runner = runtime(source, raw, stop_seconds=0.3)

    def hang() -> None:
        runner.order.stop.set()
        time.sleep(5)

    source.at_end = hang
    begun = time.monotonic()
    runner.run()
    assert time.monotonic() - begun < 4
    assert landed_ids(raw) == [1]


@pytest.mark.parametrize("limits", [Limits(queue_rows=3, batch_seconds=0), Limits(queue_bytes=650, batch_seconds=0)])
def test_a_full_queue_makes_the_source_wait_and_keeps_it_alive(limits: Limits) -> None:
    queue, alive = BoundedQueue(replace(limits, look_seconds=0.02)), Event()
    for number in range(3):
        queue.put(emitted(number, content=b""), while_waiting=alive.set)
    assert not alive.is_set()
    waiting = threading.Thread(target=lambda: queue.put(emitted(3, content=b""), while_waiting=alive.set), daemon=True)
    waiting.start()
    assert alive.wait(5)
    assert queue.rows == 3
    assert [item.position.at for item in queue.take()] == [0, 1, 2]
    waiting.join(5)
    assert queue.rows == 1
    queue.close()
    with pytest.raises(StoppedError):
        queue.put(emitted(4), while_waiting=alive.set)
    assert [item.position.at for item in queue.take()] == [3]


def test_what_waited_while_a_batch_landed_does_not_wait_again() -> None:
    queue = BoundedQueue(Limits(batch_seconds=5))
    queue.put(emitted(1), while_waiting=lambda: pytest.fail("it had to wait"))
    *item, since = queue._items.pop()
    queue._items.append((*item, since - 5))
    queue.put(emitted(2), while_waiting=lambda: pytest.fail("it had to wait"))
    begun = time.monotonic()
    assert [item.position.at for item in queue.take()] == [1, 2]
    assert time.monotonic() - begun < 2


def test_a_lander_among_many_gathers_more_before_it_commits() -> None:
    queue, gathered = BoundedQueue(Limits(batch_rows=2, batch_seconds=0.01), pause=30.0), list[int]()
    queue.put(emitted(1), while_waiting=lambda: pytest.fail("it had to wait"))
    taking = threading.Thread(target=lambda: gathered.extend(item.position.at for item in queue.take()), daemon=True)
    taking.start()
    taking.join(0.3)
    assert (gathered, taking.is_alive()) == ([], True), "one event waits for the pause"
    queue.close()
    taking.join(10)
    assert gathered == [1], "a stop does not"


@pytest.mark.parametrize("limits", [Limits(batch_rows=2, batch_seconds=30), Limits(batch_bytes=600, batch_seconds=30)])
def test_a_batch_that_is_full_wakes_who_waits_for_it(limits: Limits) -> None:
    queue = BoundedQueue(limits, pause=30.0)
    found: list[int] = []
    taking = threading.Thread(target=lambda: found.extend(item.position.at for item in queue.take()), daemon=True)
    taking.start()
    for number in (1, 2):
        queue.put(emitted(number), while_waiting=lambda: pytest.fail("it had to wait"))
    taking.join(10)
    assert found == [1, 2]


def test_an_event_larger_than_the_queue_goes_in_alone() -> None:
    queue = BoundedQueue(Limits(queue_bytes=10))
    queue.put(emitted(1), while_waiting=lambda: pytest.fail("it had to wait"))
    assert queue.bytes > 10


@pytest.mark.parametrize("is_given", [False, True])
def test_metrics_and_health_are_served_on_the_loopback(raw: RawTable, is_given: bool) -> None:
    import urllib.request

    source, where = Memory([emitted(i) for i in range(1, 6)]), f"localhost:{free_port()}"
    order = ProducerOrder([Target(raw)], said := Said(), Event())
    order = replace(order, listen=where) if is_given else order
    runner = Runtime(source, order, Metrics("memory"), BATCHES)
    worker = threading.Thread(target=runner.run)
    worker.start()
    try:
        while source.confirmed < 5:
            time.sleep(0.01)
        address = said.lines[0].split()[1].removesuffix("/metrics,")
        assert address.startswith(f"http://{where if is_given else '127.0.0.1:'}")
        metrics = urllib.request.urlopen(f"{address}/metrics", timeout=5).read().decode()
        assert f'cdc_views_events_total{{source="memory",table="{TABLE}"}} 5.0' in metrics
        assert 'cdc_views_queue_rows{source="memory"} 0.0' in metrics
        assert b'"ok"' in urllib.request.urlopen(f"{address}/healthz", timeout=5).read()
        runner.health.set("target", "disk full")
        with pytest.raises(urllib.error.HTTPError, match="503") as told:
            urllib.request.urlopen(f"{address}/healthz", timeout=5)
        assert b"disk full" in told.value.read()
    finally:
        order.stop.set()
        worker.join(10)


class Slow:
    """A target that is away at first, and keeps nothing."""

    name = TABLE
    schema = None

    def __init__(self, seconds: float) -> None:
        self.seconds, self.events = seconds, 0

    def lander(self, stream: str) -> Any:
        return self

    raw = None

    def land(self, events: list[Any], *, through: Position, now: Any, note: str) -> BatchReport:
        time.sleep(0 if self.events else self.seconds)
        self.events += len(events)
        return BatchReport(events=len(events))

    def version(self) -> object:
        return 0

    def follow(self) -> None:
        pass


def test_tables_of_one_transaction_land_each_by_itself(raw: RawTable) -> None:
    away: Any = Slow(0.0)
    away.name, away.land = "shop.others", Mock(side_effect=EngineError("its disk is full"))
    source = Memory([emitted(1), emitted(2)._replace(table=away.name)])
    order = ProducerOrder([Target(raw), away], Said(), Event(), listen=None)
    source.at_end = order.stop.set
    with pytest.raises(EngineError, match="its disk is full"):
        Runtime(source, order, Metrics("memory"), replace(BATCHES, stop_seconds=0.1)).run()
    assert landed_ids(raw) == [1]


class Endless(Memory):
    """A log that is made as it is read: 30,000 events of 1,000 bytes."""

    def run(self, emit: Emit, stop: Event) -> None:
        for number in range(1, 30_001):
            emit(emitted(number, content=bytes(1000)))
        self.at_end()


def test_the_queue_gathers_for_as_long_as_the_lander_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Landers of one table on a store commit in turns, so each pauses."""
    runtime = Runtime(Memory([]), ProducerOrder([Slow(0)], Said(), Event(), listen=None), Metrics("memory"))  # type: ignore[list-item]
    monkeypatch.setattr(Slow, "land", lambda _, events, **__: BatchReport(events=len(events), pause=7.5))
    runtime._land([emitted(1)])
    assert runtime._queue.pause == 7.5


def test_what_waits_is_in_the_metrics() -> None:
    metrics = Metrics("memory")
    runtime = Runtime(Memory([]), ProducerOrder([Slow(0)], Said(), Event(), listen=None), metrics)  # type: ignore[list-item]
    for number in range(3):
        runtime._queue.put(emitted(number, content=bytes(1000)), while_waiting=lambda: pytest.fail("it had to wait"))
    runtime._refresh()
    told = {
        name: metrics.registry.get_sample_value(f"cdc_views_queue_{name}", {"source": "memory"}) for name in ("rows", "bytes")
    }
    assert told["rows"] == 3
    assert 3_000 < told["bytes"] == runtime._queue.bytes < 6_000


@pytest.mark.heavy
@pytest.mark.parametrize(("queue_bytes", "is_bounded"), [(2 << 20, True), (1 << 30, False)])
def test_memory_is_that_of_the_queue_however_much_comes(queue_bytes: int, is_bounded: bool) -> None:
    """The second case shows that the measure can tell: without the limit everything is in memory at once."""
    target, source = Slow(2.0), Endless([])
    order = ProducerOrder([target], Said(), Event(), listen=None)  # type: ignore[list-item]
    source.at_end = order.stop.set
    limits = Limits(queue_rows=1 << 30, queue_bytes=queue_bytes, batch_rows=500, batch_seconds=0.01)
    tracemalloc.start()
    try:
        Runtime(source, order, Metrics("memory"), limits).run()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert target.events == 30_000
    assert (most < 2 * queue_bytes) if is_bounded else (most > 20 << 20)
