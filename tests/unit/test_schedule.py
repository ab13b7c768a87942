"""The schedule, with a clock that only sleeping and runs move: what runs when, and what a failure or a stop changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from threading import Event

import pytest

from cdc_views.model.cron import Cron
from cdc_views.operations.scheduling import Completed, Failed, Happening, Job, Skipped, Started, holding, run_schedule
from cdc_views.state import Materialization

MIDNIGHT = datetime(2026, 11, 21, tzinfo=timezone.utc)


@dataclass
class FakeClock:
    """Time passes only by sleeping, and by `pass_minutes`."""

    instant: datetime = MIDNIGHT

    def now(self) -> datetime:
        return self.instant

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.instant += timedelta(seconds=seconds)

    def pass_minutes(self, minutes: float) -> None:
        self.instant += timedelta(minutes=minutes)


DONE = Materialization(is_new=True, raw_version=1, facts=1, told="done")


@dataclass
class FakeTable:
    """A table whose runs are recorded; `during` says what happens while one goes on."""

    name: str
    clock: FakeClock
    during: Callable[[], object] = lambda: None
    runs: list[str] = field(default_factory=list)

    def materialize(self, *, full: bool = False, engine: str | None = None) -> Materialization:
        self.runs.append(f"{self.clock.now():%H:%M}")
        self.during()
        return DONE


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def orders(clock: FakeClock) -> FakeTable:
    return FakeTable("shop.orders", clock)


def job(folder: Path, table: FakeTable, expression: str = "*/5 * * * *") -> Job:
    return Job(table, folder / table.name, cron=Cron(expression))


def happen(*jobs: Job, clock: FakeClock, count: int, stop: Event | None = None) -> list[str]:
    """The first `count` things that happen, as texts."""
    return [told(one) for one in islice(run_schedule(jobs, clock=clock, stop=stop or Event()), count)]


def told(happening: Happening) -> str:
    name = happening.table.removeprefix("shop.")
    match happening:
        case Started():
            missed = "" if happening.since == happening.tick else f" since {happening.since:%H:%M}"
            return f"{name} {happening.tick:%H:%M} started{missed}"
        case Completed():
            return f"{name} {happening.tick:%H:%M} completed"
        case Failed():
            return f"{name} {happening.tick:%H:%M} failed: {happening.error}"
        case Skipped():
            return f"{name} {happening.first:%H:%M}-{happening.last:%H:%M} skipped: {happening.reason.split(' process ')[0]}"


def test_a_table_runs_at_each_tick(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    happen(job(tmp_path, orders), clock=clock, count=6)
    assert orders.runs == ["00:05", "00:10", "00:15"]


def test_tables_run_by_their_own_expressions_and_in_order_at_the_same_tick(tmp_path: Path, clock: FakeClock) -> None:
    a, b = FakeTable("shop.a", clock), FakeTable("shop.b", clock)
    found = happen(job(tmp_path, a, "*/10 * * * *"), job(tmp_path, b, "*/5 * * * *"), clock=clock, count=6)
    assert [one for one in found if "completed" in one] == ["b 00:05 completed", "a 00:10 completed", "b 00:10 completed"]


def test_jobs_without_an_expression_are_left_out(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    assert happen(Job(orders, tmp_path), clock=clock, count=9) == []


def test_a_tick_during_the_table_s_own_run_is_skipped_and_noted(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    orders.during = lambda: clock.pass_minutes(12)
    assert happen(job(tmp_path, orders), clock=clock, count=4) == [
        "orders 00:05 started",
        "orders 00:05 completed",
        "orders 00:10-00:15 skipped: its run was still going",
        "orders 00:20 started",
    ]


def test_a_run_that_ends_as_the_next_tick_comes_skips_nothing(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    orders.during = lambda: clock.pass_minutes(5)
    happen(job(tmp_path, orders), clock=clock, count=5)
    assert orders.runs == ["00:05", "00:10"]


def test_a_table_that_waited_for_another_s_long_run_runs_once_for_all_its_ticks(tmp_path: Path, clock: FakeClock) -> None:
    slow, quick = FakeTable("shop.slow", clock), FakeTable("shop.quick", clock)
    slow.during = lambda: clock.pass_minutes(7)
    found = happen(job(tmp_path, slow, "0 * * * *"), job(tmp_path, quick, "*/2 * * * *"), clock=clock, count=62)
    assert found[-3:] == ["slow 01:00 completed", "quick 01:06 started since 01:00", "quick 01:06 completed"]


def test_what_was_missed_while_down_is_caught_up_exactly_once(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    happen(job(tmp_path, orders), clock=clock, count=3)
    assert orders.runs == ["00:05"]
    clock.pass_minutes(31)
    assert happen(job(tmp_path, orders), clock=clock, count=4) == [
        "orders 00:40 started since 00:10",
        "orders 00:40 completed",
        "orders 00:45 started",
        "orders 00:45 completed",
    ]


def test_nothing_is_caught_up_when_nothing_was_missed(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    happen(job(tmp_path, orders), clock=clock, count=3)
    happen(job(tmp_path, orders), clock=clock, count=2)
    assert orders.runs == ["00:05", "00:10"]


def test_a_table_that_was_never_scheduled_has_missed_nothing_but_what_follows_its_first_start(
    tmp_path: Path, clock: FakeClock, orders: FakeTable
) -> None:
    assert happen(job(tmp_path, orders, "0 * * * *"), clock=clock, stop=stopped(), count=9) == []
    clock.pass_minutes(90)
    assert happen(job(tmp_path, orders, "0 * * * *"), clock=clock, count=1) == ["orders 01:00 started"]


def stopped() -> Event:
    event = Event()
    event.set()
    return event


def test_a_schedule_that_is_stopped_at_once_still_remembers_its_tables(
    tmp_path: Path, clock: FakeClock, orders: FakeTable
) -> None:
    one = job(tmp_path, orders)
    happen(one, clock=clock, stop=stopped(), count=1)
    assert one.completed() == MIDNIGHT


def test_a_failure_is_told_tried_again_at_the_next_tick_and_stops_no_other_table(tmp_path: Path, clock: FakeClock) -> None:
    good, bad = FakeTable("shop.good", clock), FakeTable("shop.bad", clock)
    answers: Iterator[bool] = iter([False, True])

    def fail_once() -> None:
        if not next(answers):
            raise OSError("disk full")

    bad.during = fail_once
    assert happen(job(tmp_path, bad), job(tmp_path, good), clock=clock, count=6) == [
        "bad 00:05 started",
        "bad 00:05 failed: disk full",
        "good 00:05 started",
        "good 00:05 completed",
        "bad 00:10 started",
        "bad 00:10 completed",
    ]


def test_a_failed_tick_counts_as_missed_after_a_restart(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    def fail() -> None:
        raise OSError("disk full")

    orders.during = fail
    happen(job(tmp_path, orders), clock=clock, count=2)
    clock.pass_minutes(1)
    orders.during = lambda: None
    assert happen(job(tmp_path, orders), clock=clock, count=2) == ["orders 00:05 started", "orders 00:05 completed"]


def test_a_tick_whose_lock_is_held_is_skipped_and_says_by_whom(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    one = job(tmp_path, orders)
    with holding(one.folder, table="shop.orders"):
        found = happen(one, clock=clock, count=2)
    assert found == ["orders 00:05 started", "orders 00:05-00:05 skipped: it is being run by"]
    assert orders.runs == []


def test_of_two_schedulers_one_runs_a_tick(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    mine = run_schedule([job(tmp_path, orders)], clock=clock, stop=Event())
    theirs = run_schedule([job(tmp_path, orders)], clock=clock, stop=Event())
    found = [told(next(mine)), told(next(theirs)), told(next(mine)), told(next(theirs))]
    assert found[2:] == ["orders 00:05 completed", "orders 00:05-00:05 skipped: another scheduler has run it"]
    assert orders.runs == ["00:05"]


def test_a_stop_during_a_run_lets_it_end_and_begins_no_other(tmp_path: Path, clock: FakeClock) -> None:
    stop = Event()
    a, b = FakeTable("shop.a", clock, during=stop.set), FakeTable("shop.b", clock)
    found = happen(job(tmp_path, a), job(tmp_path, b), clock=clock, stop=stop, count=9)
    assert found == ["a 00:05 started", "a 00:05 completed"]
    assert job(tmp_path, a).completed() == MIDNIGHT + timedelta(minutes=5)


def test_a_remembered_tick_that_lies_ahead_does_not_hold_a_table_back(
    tmp_path: Path, clock: FakeClock, orders: FakeTable
) -> None:
    one = job(tmp_path, orders)
    one.remember(MIDNIGHT + timedelta(days=400))
    assert happen(one, clock=clock, count=1) == ["orders 00:05 started"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"completed": 5}', '{"completed": "soon"}', "{}"])
def test_a_damaged_memory_is_as_none(tmp_path: Path, clock: FakeClock, orders: FakeTable, text: str) -> None:
    one = job(tmp_path, orders)
    one.remember(MIDNIGHT)
    (memory,) = one.folder.iterdir()
    memory.write_text(text)
    assert one.completed() is None
    assert happen(one, clock=clock, count=1) == ["orders 00:05 started"]


def test_a_clock_that_jumps_ahead_makes_one_run(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    happenings = run_schedule([job(tmp_path, orders)], clock=clock, stop=Event())
    assert [told(next(happenings)), told(next(happenings))] == ["orders 00:05 started", "orders 00:05 completed"]
    clock.pass_minutes(60 * 24 * 365)
    assert [told(next(happenings)), told(next(happenings))][1] == "orders 00:05 completed"
    assert [told(next(happenings)), told(next(happenings))] == ["orders 00:10 started", "orders 00:10 completed"]


def test_a_job_runs_with_its_engine_and_under_its_lock(tmp_path: Path, clock: FakeClock, orders: FakeTable) -> None:
    seen: list[bool] = []

    def look() -> None:
        from cdc_views.errors import TableLockedError

        with (
            pytest.raises(TableLockedError, match=r"shop\.orders is being run by process"),
            holding(tmp_path, table="shop.orders"),
        ):
            pass
        seen.append(True)

    orders.during = look
    assert Job(orders, tmp_path).run(full=True).raw_version == 1
    assert seen == [True]
