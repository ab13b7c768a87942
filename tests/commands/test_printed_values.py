"""What `query` and `history` print of values that JSON does not have: NaN, infinities, JSON's null."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project

NAME = "public.t"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A table of doubles and documents: NaN and infinities, a document that is null, and nulls."""
    monkeypatch.chdir(tmp_path)
    Path("t.sql").write_text(
        "create table public.t (id int primary key, d double precision, r real, j jsonb, l double precision[]);"
    )
    write_project(table(NAME, "t.sql"))
    run = CommandLine(capsys)
    lines = [
        event(1, d="NaN", r="Infinity", j="null", l=[1.5, "NaN", None]),
        event(2, d="-Infinity", r=1.5, j="[null]", l=None),
        event(3, d=None, r=None, j=None, l=None),
    ]
    assert run.land(NAME, *lines).code == 0
    return run


def event(number: int, **row: object) -> str:
    source = {"connector": "postgresql", "db": "l", "schema": "public", "table": "t", "lsn": number}
    return json.dumps({"op": "c", "source": source, "before": None, "after": {"id": number, **row}})


@pytest.mark.parametrize("command", ["query", "history"])
def test_csv_names_what_is_no_null(run: CommandLine, command: str) -> None:
    rows = list(csv.reader(io.StringIO(run(command, NAME, "--format", "csv").out)))
    assert [row[:5] for row in rows] == [
        ["id", "d", "r", "j", "l"],
        ["1", "NaN", "Infinity", "null", "[1.5, NaN, null]"],
        ["2", "-Infinity", "1.5", "[null]", ""],
        ["3", "", "", "", ""],
    ]


def test_a_table_names_nan_and_infinities(run: CommandLine) -> None:
    out = run("query", NAME, "--format", "table").out
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("|")]
    assert cells[1:] == [
        ["1", "NaN", "Infinity", "null", "[1.5, NaN, null]"],
        ["2", "-Infinity", "1.5", "[null]", "null"],
        ["3", "null", "null", "null", "null"],
    ]


@pytest.mark.parametrize("command", ["query", "history"])
def test_json_has_null_for_them(run: CommandLine, command: str) -> None:
    first = json.loads(run(command, NAME, "--format", "jsonl").out.splitlines()[0])
    assert first == json.loads(run(command, NAME, "--format", "json").out)[0]
    assert {name: first[name] for name in ("d", "r", "j", "l")} == {"d": None, "r": None, "j": None, "l": [1.5, None, None]}
