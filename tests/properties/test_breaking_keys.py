"""A failed test that only counts also names the first keys, on each engine, from raw and from state and tail."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.tiny_project import event, make_project, write_lines

TABLE = "shop.orders"


def ahead(number: int, *, hours: int) -> str:
    """An event that is written so many hours ahead of the clock."""
    written = int((time.time() + hours * 3600) * 1_000_000)
    return event(number).replace(f'"written": {number}', f'"written": {written}')


def deleted(number: int, *, hours: int) -> str:
    """The same of the deletion of a row."""
    row = json.loads(ahead(number, hours=hours))["rows"][0]
    deletion = {"written": row["liveness"]["written"], "deleted_at": 1}
    return event(number, rows=[{"kind": "row", "clustering": row["clustering"], "deletion": deletion}])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Two rows, one of them written more than a day ahead, and a condition that one row breaks."""
    monkeypatch.chdir(tmp_path)
    file = make_project(tmp_path)
    project = json.loads(file.read_text())
    project["tables"][0]["tests"] = [{"name": "low", "holds": "id < 2"}]
    file.write_text(json.dumps(project))
    write_lines(Path("a.jsonl"), ahead(1, hours=23), ahead(2, hours=25))
    found = CommandLine(capsys)
    assert found("land", "cassandra-mutation", "a.jsonl", "--table", TABLE).code == 0
    return found


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("has_state", [False, True])
def test_the_first_keys_are_named(run: CommandLine, engine: str, has_state: bool) -> None:
    if has_state:
        assert run("materialize").code == 0
    write_lines(Path("b.jsonl"), ahead(3, hours=25), deleted(4, hours=25))
    assert run("land", "cassandra-mutation", "b.jsonl", "--table", TABLE).code == 0
    answer = run("validate", "--no-docs", "--engine", engine, "--format", "jsonl")
    assert answer.code == 1
    results = {row["check"]: row["result"] for row in answer.rows}
    assert results["not_from_the_future"].startswith("does not hold for 3 facts, first: {")
    assert results["low"].startswith("does not hold for 2 rows, first: {")
    report = run("validate", "--no-docs", "--engine", engine, "--json", "tests.json")
    assert report.code == 1
    checks = json.loads(Path("tests.json").read_text())
    where = {check["check"]: [json.loads(key)["id"] for key in check["where"]] for check in checks if check["where"]}
    assert where == {"low": [2, 3], "not_from_the_future": [2, 3, 4]}
