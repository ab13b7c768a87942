"""`validate` in BigQuery: its one query of counts runs there, and notices what is broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import Served
from tiny_project import event
from warehouses import load, project

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


def test_what_is_broken_is_noticed(server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path, server, TESTS)
    load(table, [event(9, state="lost")])
    rows = table.relation.rows([], landed_at=0)
    broken = pa.Table.from_pylist([{"_kind": "nonsense", "id": 1, "line": 1}], schema=rows.schema)
    with table.project.remote() as engine:
        engine.load(table.raw, broken)  # type: ignore[attr-defined]
    code, outcomes = _outcomes(table, capsys)
    assert code == 1
    assert {name for name, status in outcomes.items() if status == "failed"} == {"states", "facts_are_known"}
