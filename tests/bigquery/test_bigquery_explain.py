"""`explain` and `history --key` of raw tables in BigQuery: what they say of the same facts in Delta."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.bigquery_warehouses import Served, load, load_case, project, real_case
from helpers.reading import canonical_row
from helpers.tiny_project import event, make_project, write_lines

from cdc_views import Project
from cdc_views.cli import main
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.operations.explained import candidate_rows, verdict
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.table import Table

AS_OF = 1_800_000_000
KEY: dict[str, Any] = {"id": 1, "line": 0}


def row(line: int, **more: Any) -> dict[str, Any]:
    return {"kind": "row", "clustering": {"line": line}, **more}


def facts(n: int) -> list[str]:
    """A row that changes twice, its deletion, and another row of the partition."""
    cells = [{"column": "state", "written": 100, "value": "paid"}]
    deletion = {"written": 100, "deleted_at": 1_700_000_000}
    later = [{"column": "note", "written": 150, "value": "risen"}]
    rows = [row(0, cells=cells), row(0, deletion=deletion), row(7, cells=cells), row(0, cells=later)]
    return [event(n), *(event(n, rows=[each]) for each in rows)]


def told(table: Table, key: Any) -> tuple[str, list[Any], list[Any], list[Any]]:
    """What `explain` and `history` say."""
    found = table.explain(key, as_of=AS_OF)
    versions = [(version.row, version.valid_from, version.valid_to) for version in table.history(key, as_of=AS_OF).versions()]
    column = list(candidate_rows(table.explain(key, column=table.schema.regulars[0].name, as_of=AS_OF)))
    return verdict(found), list(candidate_rows(found)), versions, column


@pytest.mark.parametrize("key", [KEY, {"id": 1}, {"id": 1, "line": 7}, {"id": 99, "line": 0}], ids=str)
def test_a_key_is_told_of_as_in_delta(server: Served, tmp_path: Path, key: dict[str, Any]) -> None:
    there = project(tmp_path, server.url).table("shop.orders")
    there.apply()
    lines = [line for n in (1, 2) for line in facts(n)]
    load(there, lines)
    (tmp_path / "local").mkdir()
    here = Project.load(make_project(tmp_path / "local")).table("shop.orders")
    here.land(write_lines(tmp_path / "events.jsonl", *lines))
    found = told(there, key)
    asked = [text for job in server.store.query_jobs if "FROM `my-project.shop_raw" in (text := job["query"]["query"])]
    of_key = f'WHERE _kind = "table" OR (id = {key["id"]}'
    assert [of_key in text for text in asked[-3:]] == [True] * 3, asked[-3:]
    assert found[0] == told(here, key)[0]
    assert found[2] == told(here, key)[2]
    assert without_origins(found[1]) == without_origins(told(here, key)[1])
    assert without_origins(found[3]) == without_origins(told(here, key)[3])
    assert found[2] or key["id"] == 99


def without_origins(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Files name segments otherwise than what is loaded."""
    return [{name: value for name, value in row.items() if name != "origins"} for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["types3", "wide3", "exotic3"])  # names3 has names that no view of BigQuery may have
def test_every_row_of_a_real_case_is_explained(server: Served, tmp_path: Path, cassandra_cases: Path, case: str) -> None:
    table = real_case(tmp_path, cassandra_cases, case, server.url)
    table.apply()
    load_case(table, cassandra_cases, case)
    rows = list(table.query(as_of=AS_OF).rows())
    keys = [column.name for column in table.schema.row_key]
    whole = [row for row in rows if all(row[name] is not None for name in keys)]
    assert whole
    for each in whole[:5]:
        key = ", ".join(f"{json.dumps(name)}: {to_json(table.schema.column(name).type, each[name])}" for name in keys)
        found = table.explain(f"{{{key}}}", as_of=AS_OF)
        assert found.is_row
        shown = {column.name: found.value(column.name) for column in table.schema.regulars}
        assert canonical_row(shown) == canonical_row({name: each[name] for name in shown})


def test_what_cannot_be_told_says_why(server: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = project(tmp_path, server.url).table("shop.orders")
    with pytest.raises(UsageError, match="run `cdc-views apply`"):
        table.explain(KEY)
    table.apply()
    with pytest.raises(UnsupportedError, match="--key"):
        table.history()
    load(table, facts(1))
    arguments = ("--key", json.dumps(KEY), "--project", str(table.project.file), "--format", "jsonl")
    assert main(["explain", "shop.orders", *arguments]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["rule"] for row in rows} >= {"D1", "C2.1"}
    assert main(["history", "shop.orders", *arguments]) == 0
    versions = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert versions[0]["state"] is not None
    assert main(["history", "shop.orders", *arguments, "--engine", "duckdb"]) == 2
