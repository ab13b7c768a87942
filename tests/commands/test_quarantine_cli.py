"""Files that are of another format as a whole, and events that are let go on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine
from helpers.comparing import raw_location
from helpers.tiny_project import event, make_project, write_lines

TABLE = "shop.orders"
BAD = '{"answer": %d}'


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of one table, nothing landed."""
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    return CommandLine(capsys)


def land(run: CommandLine, *more: str, file: str = "events.jsonl") -> int:
    return run("land", "cassandra-mutation", file, "--table", TABLE, *more).code


def waiting(run: CommandLine) -> list[dict[str, object]]:
    answer, of_one = run("quarantine", "list", "--format", "jsonl"), run("quarantine", "list", "orders", "--format", "jsonl")
    assert (answer.code, of_one.code) == (0, 0), answer.err
    assert answer.rows == of_one.rows
    return answer.rows


def test_a_file_of_which_nothing_can_be_read_is_refused_whole(run: CommandLine) -> None:
    write_lines(Path("events.jsonl"), *[BAD % i for i in range(59)])
    answer = run("land", "cassandra-mutation", "events.jsonl", "--table", TABLE)
    assert answer.code == 2
    assert "events.jsonl:1: " in answer.err
    assert "none of the first 59 events can be read as cassandra-mutation" in answer.err
    assert "--force" in answer.err
    assert not Path("warehouse").exists(), "nothing was done"
    assert waiting(run) == []
    assert land(run, "--force") == 1
    assert len(waiting(run)) == 59


def test_good_events_land_even_when_others_do_not(run: CommandLine) -> None:
    write_lines(Path("few.jsonl"), *[BAD % i for i in range(19)])
    assert land(run, file="few.jsonl") == 1
    write_lines(Path("late.jsonl"), *[BAD % (100 + i) for i in range(300)], event(1))
    assert land(run, file="late.jsonl") == 1
    assert len(run.query(TABLE)) == 1
    assert len(waiting(run)) == 319


def test_a_file_that_landed_and_grew_is_not_refused(run: CommandLine) -> None:
    write_lines(Path("events.jsonl"), event(1))
    assert land(run) == 0
    write_lines(Path("events.jsonl"), event(1), *[BAD % i for i in range(40)])
    assert land(run) == 1
    assert len(waiting(run)) == 40


def test_discarded_events_rest_and_are_kept(run: CommandLine) -> None:
    write_lines(Path("events.jsonl"), event(1), BAD % 1, BAD % 2)
    assert land(run) == 1
    first, second = waiting(run)
    assert "content" not in first
    shown = run("quarantine", "show", TABLE, "--event", str(first["event"]), "--format", "jsonl").rows
    assert [json.loads(str(row["content"])) for row in shown] == [{"answer": 1}]
    assert run("validate", "--no-docs", "--fail-on", "warning").code == 1
    assert run("quarantine", "discard", TABLE, "--event", str(first["event"]), "--reason", "a test event").code == 0
    assert [row["event"] for row in waiting(run)] == [second["event"]]
    assert run("quarantine", "discard", TABLE, "--all", "--reason", "so was this").code == 0
    assert run("validate", "--no-docs", "--fail-on", "warning").code == 0
    assert run("quarantine", "replay", TABLE).code == 0, "nothing waits"
    kept = DeltaTable(f"{raw_location(TABLE)}__quarantine").to_pyarrow_table().to_pylist()
    assert {json.loads(row["event"])["answer"] for row in kept} == {1, 2}
    assert "discarded: a test event" in "".join(row["reason"] for row in kept)
    assert land(run) == 0, "the same file quarantines nothing anew"
    assert waiting(run) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--reason", "x"], "either --event ID"),
        (["--reason", "x", "--all", "--event", "a"], "either --event ID"),
        (["--reason", " ", "--all"], "say why"),
        (["--reason", "x", "--event", "zz"], "the id of no waiting event begins with 'zz'"),
    ],
)
def test_a_discard_says_which_and_why(run: CommandLine, arguments: list[str], told: str) -> None:
    write_lines(Path("events.jsonl"), BAD % 1)
    assert land(run) == 1
    answer = run("quarantine", "discard", TABLE, *arguments)
    assert (answer.code, told in answer.err) == (2, True), answer.err


def test_a_report_of_nothing_is_refused(run: CommandLine) -> None:
    answer = run("report", "--out", "site")
    assert answer.code == 2
    assert f"nothing has landed for {TABLE} yet" in answer.err
    assert not Path("site").exists()
