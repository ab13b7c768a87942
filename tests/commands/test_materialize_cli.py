"""`cdc-views materialize`: once, by a schedule with a clock of our own, and as a process that is told to stop."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from helpers.command_line import Answer, CommandLine, table, write_project

from cdc_views import Project
from cdc_views.operations.scheduling import holding, job_of

pytestmark = pytest.mark.heavy

CQL = "CREATE TABLE shop.{} (id int PRIMARY KEY, state text);\n"
ORDERS, ITEMS = "shop.orders", "shop.items"
EVERY_MINUTE = {"schedule": "* * * * *"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in a project of two tables, each by the minute."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL.format("orders") + CQL.format("items"))
    make(EVERY_MINUTE)
    return CommandLine(capsys)


def make(materialize: dict[str, str]) -> None:
    """Write the project file."""
    write_project(*(table(name, "schema.cql", "cassandra-mutation", materialize=materialize) for name in (ORDERS, ITEMS)))


def mutation(number: int, name: str) -> str:
    cell = {"column": "state", "written": number, "value": "open"}
    return json.dumps(
        {
            "format": "cassandra-mutation/1",
            "node": "n",
            "segment": 1,
            "position": number,
            "keyspace": "shop",
            "table": name.partition(".")[2],
            "partition": {"id": number},
            "rows": [{"kind": "row", "clustering": {}, "liveness": {"written": number}, "cells": [cell]}],
        }
    )


def land(run: CommandLine, number: int = 1, *tables: str) -> None:
    """Land an event into each table."""
    for name in tables or (ORDERS, ITEMS):
        assert run.land(name, mutation(number, name), format="cassandra-mutation", file=f"{number}.jsonl").code == 0


def test_a_file_of_the_state_that_is_gone_is_named_with_what_to_do(run: CommandLine) -> None:
    land(run, 1, ORDERS)
    assert run("materialize", "--select", ORDERS).code == 0
    file = next(Path("warehouse/state").rglob("_part=*/*.parquet")).absolute()
    file.unlink()
    answer = run("query", ORDERS)
    assert answer.code == 3
    assert f"{ORDERS}: a file of the state is damaged, {file}: it is missing" in answer.err
    told = re.search(r"move (\S+) away and run `cdc-views (materialize --select \S+)`, which builds it from raw", answer.err)
    assert told, answer.err
    Path(told[1]).rename("away")
    assert [row["id"] for row in run.query(ORDERS)] == [1], "from raw"
    assert run(*told[2].split()).code == 0
    assert [row["id"] for row in run.query(ORDERS)] == [1]


def done(answer: Answer) -> list[tuple[str, bool, int]]:
    """What the rows of `--format jsonl` say."""
    return [(row["table"], row["is_new"], row["facts"]) for row in answer.rows]


def test_once_runs_each_table_and_says_what_was_done(run: CommandLine) -> None:
    land(run)
    first = run("materialize", "--format", "jsonl")
    assert (first.code, done(first)) == (0, [(ORDERS, True, 1), (ITEMS, True, 1)])
    assert set(first.rows[0]) == {"table", "is_new", "raw_version", "facts", "late", "outcome"}
    assert [line.partition(": ")[0] for line in first.err.splitlines()] == [ORDERS, ITEMS]
    again = run("materialize", "--once", "--format", "jsonl")
    assert (again.code, done(again)) == (0, [(ORDERS, False, 0), (ITEMS, False, 0)])


def test_only_what_landed_since_is_read_and_all_of_it_with_full(run: CommandLine) -> None:
    land(run)
    run("materialize")
    land(run, 2, ORDERS)
    assert done(run("materialize", "--format", "jsonl", "--select", ORDERS)) == [(ORDERS, True, 1)]
    assert done(run("materialize", "--format", "jsonl", "--select", ORDERS, "--full")) == [(ORDERS, True, 2)]


def test_the_formats_have_the_same_rows(run: CommandLine) -> None:
    land(run)
    run("materialize")
    rows = run("materialize", "--format", "jsonl").rows
    assert json.loads(run("materialize", "--format", "json").out) == rows
    written = list(csv.DictReader(io.StringIO(run("materialize", "--format", "csv").out)))
    assert [row["table"] for row in written] == [row["table"] for row in rows]


@pytest.mark.parametrize("layout", ["table", "vertical"])
def test_people_are_told_of_a_run_once(run: CommandLine, layout: str) -> None:
    land(run)
    answer = run("materialize", "--format", layout)
    assert [answer.out.count(name) for name in (ORDERS, ITEMS)] == [1, 1]
    assert (answer.err.count("state built from"), "state built from" in answer.out) == (2, False)


def test_the_log_is_json_when_asked(run: CommandLine) -> None:
    land(run)
    lines = [json.loads(line) for line in run("materialize", "--log-format", "json").err.splitlines()]
    assert [(line["level"], line["table"]) for line in lines] == [("info", ORDERS), ("info", ITEMS)]


def test_a_table_that_fails_stops_no_other(run: CommandLine) -> None:
    land(run, 1, ITEMS)
    answer = run("materialize", "--format", "jsonl")
    assert (answer.code, done(answer)) == (2, [(ITEMS, True, 1)])
    assert "error: nothing has landed for shop.orders yet" in answer.err


def test_a_lock_that_somebody_holds_exits_3_and_says_who(run: CommandLine) -> None:
    land(run)
    folder = job_of(Project.load().table(ORDERS)).folder
    assert folder == Path("warehouse/locks/shop_orders").absolute()
    with holding(folder, table=ORDERS):
        answer = run("materialize", "--format", "jsonl", "--wait", "0.1")
    assert (answer.code, done(answer)) == (3, [(ITEMS, True, 1)])
    assert f"error: {ORDERS} is being run by process {os.getpid()} on " in answer.err
    assert "still is after 0.1 s" in answer.err


@pytest.mark.parametrize("held", [ORDERS, ITEMS])
def test_of_tables_that_fail_the_highest_exit_code_counts(run: CommandLine, held: str) -> None:
    land(run, 1, held)  # nothing has landed for the other: 2
    with holding(job_of(Project.load().table(held)).folder, table=held):
        assert run("materialize", "--wait", "0.1").code == 3


@pytest.mark.parametrize("more", [["--once"], ["--full"], ["--wait", "5"]])
def test_a_schedule_goes_with_no_option_for_once(run: CommandLine, more: list[str]) -> None:
    answer = run("materialize", "--schedule", *more)
    assert (answer.code, answer.out) == (2, "")
    assert f"--schedule and {more[0]} do not go together" in answer.err


def test_a_schedule_of_tables_without_one_says_what_to_do(run: CommandLine) -> None:
    make({})
    answer = run("materialize", "--schedule")
    assert (answer.code, answer.out) == (2, "")
    assert 'give one `materialize: {schedule: "*/15 * * * *"}`' in answer.err


class OurClock:
    """Starts at a full minute, and ends the schedule when so many have begun."""

    def __init__(self, stop: Event, *, minutes: int) -> None:
        self.stop, self.left = stop, minutes
        self.instant = datetime(2026, 11, 21, 10, 0, tzinfo=timezone.utc)

    def now(self) -> datetime:
        return self.instant

    def sleep(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)
        if self.instant.second == 0:
            self.left -= 1
            if self.left < 0:
                self.stop.set()


def by_our_clock(run: CommandLine, monkeypatch: pytest.MonkeyPatch, *arguments: str, minutes: int) -> Answer:
    monkeypatch.setattr("cdc_views.operations.scheduling.SystemClock", lambda stop: OurClock(stop, minutes=minutes))
    return run("materialize", "--schedule", *arguments)


def test_a_schedule_runs_each_table_at_each_minute(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    land(run)
    answer = by_our_clock(run, monkeypatch, "--format", "jsonl", minutes=2)
    assert answer.code == 0
    assert [(row["table"], row["tick"], row["is_new"]) for row in answer.rows] == [
        (ORDERS, "2026-11-21T10:01Z", True),
        (ITEMS, "2026-11-21T10:01Z", True),
        (ORDERS, "2026-11-21T10:02Z", False),
        (ITEMS, "2026-11-21T10:02Z", False),
    ]
    assert run.query(ORDERS) == [{"id": 1, "state": "open"}]
    assert answer.err.splitlines()[0].partition("Z ")[2] == f"info cdc_views.materialize: {ORDERS}: runs by * * * * *, in UTC"


def test_a_schedule_goes_on_by_the_project_file_of_its_start(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    land(run)
    sleep = OurClock.sleep

    def changed(clock: OurClock, seconds: float) -> None:
        make({"schedule": "0 0 1 1 *"})
        sleep(clock, seconds)

    monkeypatch.setattr(OurClock, "sleep", changed)
    answer = by_our_clock(run, monkeypatch, "--format", "jsonl", minutes=2)
    assert [row["tick"] for row in answer.rows if row["table"] == ORDERS] == ["2026-11-21T10:01Z", "2026-11-21T10:02Z"]


def test_a_schedule_logs_failures_and_goes_on(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    land(run, 1, ITEMS)
    answer = by_our_clock(run, monkeypatch, "--log-format", "json", minutes=2)
    told = list(map(json.loads, answer.err.splitlines()))
    failures = [line for line in told if line["level"] == "error"]
    assert [(line["table"], line["tick"]) for line in failures] == [(ORDERS, "2026-11-21T10:01Z"), (ORDERS, "2026-11-21T10:02Z")]
    assert "nothing has landed" in failures[0]["message"]
    assert [(line["table"], line["tick"]) for line in told if " ended: " in line["message"]] == [
        (ITEMS, "2026-11-21T10:01Z"),
        (ITEMS, "2026-11-21T10:02Z"),
    ]
    assert (answer.code, answer.out) == (0, ""), "the log has told it"


_SLOW = """
import sys, time
from cdc_views.api import Table
from cdc_views.cli import main
real = Table.materialize
def slow(table, **options):
    print("at work", file=sys.stderr, flush=True)
    time.sleep(float(sys.argv[1]))
    return real(table, **options)
Table.materialize = slow
sys.exit(main(sys.argv[2:]))
"""


@contextmanager
def scheduler(*arguments: str, run_seconds: float = 0.0) -> Iterator[subprocess.Popen[str]]:
    """A real scheduler of the table orders, whose runs take so long."""
    command = [sys.executable, "-c", _SLOW, str(run_seconds), "materialize", "--schedule", "--select", ORDERS, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    seen = ""
    while text not in seen:
        line = process.stderr.readline()
        assert line, f"ended before {text!r}: {seen}"
        seen += line


def owe_a_run() -> None:
    """Let the table have missed a tick, so that a scheduler runs it at once."""
    job_of(Project.load().table(ORDERS)).remember(datetime.now(timezone.utc) - timedelta(hours=1))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_scheduler_that_is_told_to_stop_ends_with_0(run: CommandLine, number: signal.Signals) -> None:
    make({"schedule": "0 0 1 1 *"})
    with scheduler() as process:
        wait_for(process, "runs by")
        time.sleep(0.5)
        process.send_signal(number)
        started = time.monotonic()
        assert process.wait(timeout=10) == 0
        assert time.monotonic() - started < 5


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_scheduler_finishes_the_run_at_hand_before_it_ends(run: CommandLine, number: signal.Signals) -> None:
    land(run)
    owe_a_run()
    with scheduler("--format", "jsonl", run_seconds=1.0) as process:
        wait_for(process, "at work")
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    (row,) = map(json.loads, out.splitlines())
    assert (process.returncode, row["table"], row["is_new"]) == (0, ORDERS, True)
    assert "info cdc_views.materialize: stopping after the run at hand" in err.splitlines()[0]
    assert done(run("materialize", "--select", ORDERS, "--format", "jsonl")) == [(ORDERS, False, 0)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_it_at_once_and_the_next_run_goes_on(run: CommandLine, number: signal.Signals, code: int) -> None:
    land(run)
    owe_a_run()
    with scheduler(run_seconds=60) as process:
        wait_for(process, "at work")
        process.send_signal(number)
        wait_for(process, "a second signal ends it")
        process.send_signal(number)
        assert process.wait(timeout=5) == code
    assert done(run("materialize", "--select", ORDERS, "--format", "jsonl")) == [(ORDERS, True, 1)]


def test_a_killed_scheduler_leaves_no_lock_and_its_tick_is_caught_up(run: CommandLine) -> None:
    land(run)
    owe_a_run()
    with scheduler(run_seconds=60) as process:
        wait_for(process, "at work")
        answer = run("materialize", "--select", ORDERS)
        assert (answer.code, f"process {process.pid} on " in answer.err) == (3, True)
        process.kill()
        process.wait()
    with scheduler("--format", "jsonl") as process:
        assert process.stdout is not None
        row: dict[str, Any] = json.loads(process.stdout.readline())
        assert (row["table"], row["is_new"]) == (ORDERS, True)
