"""`validate` in BigQuery: its one query of counts runs there, and notices what is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers.bigquery_warehouses import Served, load, project
from helpers.tiers import often
from helpers.tiny_project import event

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.table import Table

TESTS = [{"name": "states", "holds": "state IN ('open', 'paid')"}]


def _table(tmp_path: Path, server: Served, tests: list[dict[str, Any]]) -> Table:
    named = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}, "tests": tests}
    table = project(tmp_path, server.url, tables=[named]).table("shop.orders")
    table.apply()
    load(table, [event(n) for n in range(1, 4)])
    return table


def _outcomes(table: Table, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    code = main(["validate", "--no-docs", "--format", "jsonl", "--project", str(table.project.file), "--as-of", "1800000000"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {row["check"]: row["status"] for row in rows}


def test_a_sound_table_passes_and_what_cannot_run_says_so(
    server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = _table(tmp_path, server, TESTS)
    sent = len(server.store.query_jobs)
    code, outcomes = _outcomes(table, capsys)
    assert code == 0
    assert len(server.store.query_jobs) == sent + 1
    assert {name for name, status in outcomes.items() if status == "skipped"} == {
        "raw_files", "sample_equals_oracle", "deletions_are_kept",
    }  # fmt: skip
    assert {"one_row_per_key", "facts_are_known", "cells_have_write_times", "states"} <= outcomes.keys()


AHEAD = 4_000_000_000_000_000
"""A write time of the year 2096, µs."""
BAD_FACTS = {
    "an event of no kind": ({"_kind": "nonsense", "id": 1, "line": 1}, "facts_are_known"),
    "a fact without its partition": ({"_kind": "row", "line": 1}, "facts_are_known"),
    "a cell without a write time": (
        {"_kind": "row", "id": 1, "line": 1, "state": {"written": None, "rank": 1, "value": "open"}},
        "cells_have_write_times",
    ),
    "a marker without a write time": (
        {"_kind": "row", "id": 1, "line": 1, "_live": {"written": None, "rank": 1}},
        "cells_have_write_times",
    ),
    "a clock that is ahead": (
        {"_kind": "row", "id": 1, "line": 1, "state": {"written": AHEAD, "rank": 1, "value": "open"}},
        "not_from_the_future",
    ),
}
"""What is added to raw, as columns of the raw layout, and the check that is meant for it."""


@pytest.mark.parametrize(("fact", "found_by"), BAD_FACTS.values(), ids=[what.replace(" ", "_") for what in BAD_FACTS])
def test_a_bad_fact_is_noticed_by_the_check_meant_for_it(
    server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str], fact: dict[str, Any], found_by: str
) -> None:
    table = _table(tmp_path, server, [])
    broken = pa.Table.from_pylist([fact], schema=table.relation.rows([], landed_at=0).schema)
    with table.project.remote() as engine:
        engine.load(table.raw, broken)  # type: ignore[attr-defined]
    _, outcomes = _outcomes(table, capsys)
    assert {name for name, status in outcomes.items() if status == "failed"} == {found_by}, outcomes


def test_what_the_user_says_and_what_the_source_shows_are_held_against_the_view(
    server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "truth.json").write_text(json.dumps({"id": 1, "line": 1, "state": "of another source"}))
    truth = {"name": "source", "truth": "truth.json", "as_of": 1_800_000_000}
    table = _table(tmp_path, server, [*TESTS, truth])
    load(table, [event(9, state="lost")])
    code, outcomes = _outcomes(table, capsys)
    assert code == 1
    failed = {name for name, status in outcomes.items() if status == "failed"}
    assert len(failed) == 2, outcomes
    assert "states" in failed
    assert next(iter(failed - {"states"})).endswith(".source")


SAMPLE, DELETIONS = "sample_equals_oracle", "deletions_are_kept"
HOUR = 3_600_000_000
LANDED = 1_795_000_000_000_000
STATE = "my-project.shop_state.shop_orders__state"


def _kept(tmp_path: Path, server: Served, **materialize: Any) -> Table:
    """A table of four partitions with a state, the last within its overlap, and of a fifth that landed since."""
    named = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}, "materialize": materialize}
    table = project(tmp_path, server.url, tables=[named]).table("shop.orders")
    table.apply()
    deletion = {"kind": "row", "clustering": {"line": 0}, "deletion": {"written": 100, "deleted_at": 1_700_000_000}}
    load(table, [event(1), event(1, rows=[deletion]), event(2), event(2, state="paid"), event(3)], landed_at=LANDED)
    load(table, [event(4)], landed_at=LANDED + 2 * HOUR)
    table.materialize()
    load(table, [event(5)], landed_at=LANDED + 3 * HOUR)
    return table


def _told(table: Table, name: str = SAMPLE, **asked: Any) -> Any:
    report = Project.load(table.project.file).table("shop.orders").validate(as_of=1_800_000_000, **asked)
    return next(check for check in report.checks if check.name == name)


def _changed(server: Served, name: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Put other rows in a table, behind everybody's back."""
    sql = server.store.sql
    rows = change(sql.records(name))
    sql.define(name, sql.columns(name))
    sql.append(name, rows)


@pytest.mark.slow
def test_sampled_partitions_of_a_state_are_the_oracles(server: Served, tmp_path: Path) -> None:
    table = _kept(tmp_path, server)
    found = _told(table)
    assert (found.status.value, found.broken, found.note) == ("passed", 0, "5 partitions recomputed from all of raw")
    assert _told(table, sample=2).note.startswith("2 partitions")
    sent = len(server.store.query_jobs)
    assert _told(table, sample=0).note.startswith("0 partitions")
    assert len(server.store.query_jobs) == sent + 1, "the query of counts"


def _without_a_fact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["id"] != 3]


def _invented(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*rows, *({**row, "id": 77} for row in rows if row["id"] == 3)]


@pytest.mark.slow
@pytest.mark.parametrize("change", often([_without_a_fact, _invented], _without_a_fact), ids=lambda c: c.__name__.strip("_"))
def test_the_sample_notices_a_state_that_is_wrong(
    server: Served, tmp_path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    table = _kept(tmp_path, server)
    _changed(server, STATE, change)
    found = _told(table)
    assert (found.status.value, found.broken) == ("failed", 1)
    assert '"id": ' in found.where[0]


def _without_a_deletion(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "_deleted": None} for row in rows]


def _of_an_older_deletion(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row if row["_deleted"] is None else {**row, "_deleted": {**row["_deleted"], "written": 99}} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("change", [_without_a_deletion, _of_an_older_deletion], ids=lambda c: c.__name__.strip("_"))
def test_a_lost_deletion_is_noticed_though_nothing_shows_it(
    server: Served, tmp_path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    table = _kept(tmp_path, server)
    found = _told(table, DELETIONS)
    assert (found.status.value, found.note) == ("passed", "5 partitions recomputed from all of raw")
    _changed(server, STATE, change)
    assert _told(table).status.value == "passed", "what it covered is not there"
    found = _told(table, DELETIONS)
    assert (found.status.value, found.where) == ("failed", ('{"id": 1, "line": 0}: the deletion of 100 is not kept',))


@pytest.mark.slow
def test_what_came_too_late_for_a_state_is_not_held_against_it(server: Served, tmp_path: Path) -> None:
    table = _kept(tmp_path, server, lateness="1s")
    late = {"kind": "row", "clustering": {"line": 1}, "cells": [{"column": "state", "written": 50, "value": "risen"}]}
    load(table, [event(1, rows=[late])], landed_at=LANDED + 4 * HOUR)
    table.materialize()
    found = _told(table)
    assert (found.status.value, found.note[:12]) == ("passed", "4 partitions"), "partition 1 has purged a deletion"
    assert "(rule M2)" in _told(table, DELETIONS).note
