"""`validate` in BigQuery: its one query of counts runs there, and notices what is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tiny_project import event
from warehouses import Served, load, project

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
