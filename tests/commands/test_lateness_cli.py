"""The lateness horizon from the command line: `materialize`, `late`, `query`, `rebuild`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import duckdb
import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.state_sizes import set_sizes

from cdc_views import Project
from cdc_views.operations.run_records import runs_of

pytestmark = pytest.mark.heavy

CQL = "CREATE TABLE shop.orders (id int, item int, state text, PRIMARY KEY (id, item));\n"
T = "shop.orders"
LONG_AGO = 1_600_000_000


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in a project of one table that forgets after ten days; each run writes a new base."""
    monkeypatch.chdir(tmp_path)
    set_sizes(monkeypatch, rebase_share=0)
    Path("schema.cql").write_text(CQL)
    write_project(table(T, "schema.cql", "cassandra-mutation", materialize={"lateness": "10d"}))
    return CommandLine(capsys)


def mutation(position: int, *rows: dict[str, object]) -> str:
    return json.dumps(
        {
            "format": "cassandra-mutation/1",
            "node": "n1",
            "segment": 1,
            "position": position,
            "keyspace": "shop",
            "table": "orders",
            "partition": {"id": 1},
            "rows": rows,
        }
    )


def insert(item: int, written: int, *, expires_at: int | None = None) -> dict[str, object]:
    expiry = {} if expires_at is None else {"ttl": 60, "expires_at": expires_at}
    cell = {"column": "state", "written": written, "value": "open", **expiry}
    return {"kind": "row", "clustering": {"item": item}, "liveness": {"written": written, **expiry}, "cells": [cell]}


def delete(item: int, written: int, *, deleted_at: int = LONG_AGO) -> dict[str, object]:
    return {"kind": "row", "clustering": {"item": item}, "deletion": {"written": written, "deleted_at": deleted_at}}


def land(run: CommandLine, *rows: dict[str, object], position: int) -> None:
    assert run.land(T, mutation(position, *rows), format="cassandra-mutation", file=f"{position}.jsonl").code == 0


def items(run: CommandLine, *more: str) -> list[int]:
    return [row["item"] for row in run.query(T, *more)]


@pytest.fixture
def late(run: CommandLine) -> CommandLine:
    """An insert has landed after the deletion that hides it was purged."""
    land(run, delete(1, 20), insert(2, 30), position=1)
    assert run("materialize").code == 0
    land(run, insert(1, 10), insert(3, 40), position=2)
    return run


def test_late_facts_are_told_listed_and_not_shown(late: CommandLine) -> None:
    assert items(late) == [2, 3], "before the next run"
    answer = late("materialize", "--format", "jsonl")
    assert (answer.code, answer.rows[0]["late"]) == (1, 1)
    assert f"{T}: 1 facts landed after the lateness horizon and are not shown; `cdc-views late {T}` lists them" in answer.err
    assert runs_of(Project.load(), "materialize")[-1].tables[T]["late"] == 1, "alerts are told of it"
    again = late("materialize", "--format", "jsonl")
    assert (again.code, again.rows[0]["late"]) == (0, 0)
    listed = late("late", T, "--format", "jsonl")
    assert listed.code == 0
    assert [(row["what"], row["column"], row["value"]) for row in listed.rows] == [
        ("row marker", None, None),
        ("cell", "state", "open"),
    ]
    assert {name: listed.rows[1][name] for name in ("key", "written", "purged_through", "node", "position")} == {
        "key": {"id": 1, "item": 1},
        "written": 10,
        "purged_through": 20,
        "node": "n1",
        "position": 2,
    }
    assert (items(late), items(late, "--raw-only")) == ([2, 3], [2, 3])
    tested = late("validate", "--no-docs", "--format", "jsonl")
    (found,) = (row for row in tested.rows if row["check"] == "nothing_too_late")
    assert (found["status"], found["severity"]) == ("failed", "warning")


@pytest.mark.parametrize(("days", "code"), [(9, 0), (11, 1)])
def test_a_deletion_leaves_after_the_days_of_the_horizon(run: CommandLine, days: int, code: int) -> None:
    land(run, delete(1, 20, deleted_at=int(time.time()) - days * 86_400), position=1)
    assert run("materialize").code == 0
    land(run, insert(1, 10), position=2)
    assert (run("materialize").code, items(run)) == (code, [])


def test_a_view_leaves_them_out(late: CommandLine) -> None:
    assert late("apply").code == 0
    with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection:
        assert connection.sql("SELECT item FROM shop.orders ORDER BY item").fetchall() == [(2,), (3,)]


def test_rebuild_keeps_them_out_and_lets_them_in_when_told(late: CommandLine) -> None:
    land(late, insert(4, 15), position=3)
    first = late("rebuild", T)
    assert first.code == 0, "what landed since was judged first, and nothing differs"
    assert "2 facts landed after the lateness horizon" in first.err
    assert items(late) == [2, 3]
    assert len(late("late", T, "--format", "jsonl").rows) == 4
    differs = late("rebuild", T, "--with-late", "--format", "jsonl")
    assert (differs.code, [row["key"] for row in differs.rows]) == (1, ['{"id": 1, "item": 4}'])
    assert late("rebuild", T, "--with-late", "--accept").code == 0
    assert items(late) == [2, 3, 4], "it had never been deleted"
    assert late("late", T, "--format", "jsonl").rows == []


@pytest.mark.slow
def test_raw_is_dropped_though_facts_were_late(late: CommandLine) -> None:
    land(late, insert(4, 15), position=3)  # no deletion is about it: raw alone would show it
    assert late("materialize").code == 1
    before = late("late", T, "--format", "jsonl").rows
    done = late("maintain", "--drop-raw-older-than", "0s")
    assert done.code == 0, done.err
    assert items(late) == [2, 3]
    assert late("late", T, "--format", "jsonl").rows == before
    land(late, insert(1, 15), insert(5, 50), position=4)
    assert late("materialize").code == 1, "what was purged is still remembered"
    assert items(late) == [2, 3, 5]


def test_a_clock_before_what_was_purged_reads_raw(run: CommandLine) -> None:
    land(run, insert(1, 10, expires_at=LONG_AGO), position=1)
    run("materialize")
    assert items(run, "--as-of", str(LONG_AGO - 1)) == [1]
    assert items(run, "--as-of", str(LONG_AGO)) == items(run) == []


def test_without_a_state_nothing_is_late(run: CommandLine) -> None:
    answer = run("late", T, "--format", "jsonl")
    assert (answer.code, answer.rows) == (0, [])
    land(run, insert(1, 1), position=1)
    assert run("late", T, "--format", "jsonl").rows == []
