"""`cdc-views history` as a user runs it: the documented example, formats, keys, positions, bad input."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.older_events import envelope

from cdc_views import Project

pytestmark = pytest.mark.heavy

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "history.md"
ORDERS, ITEMS = "shop.orders", "shop.items"
CQL = """
CREATE TABLE shop.orders (id int PRIMARY KEY, state text, note text);
CREATE TABLE shop.items (id int, line int, valid_from text static, n int, PRIMARY KEY (id, line));
"""
DAY = 86_400_000_000
START = 1_700_000_000_000_000


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of `shop.orders` and `shop.items`, both of mutations."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL)
    write_project(*(table(name, "schema.cql", "cassandra-mutation") for name in (ORDERS, ITEMS)))
    return CommandLine(capsys)


def blocks(language: str) -> list[str]:
    """The blocks of the document in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def land_example(run: CommandLine, *, backwards: bool = False) -> None:
    lines = blocks("sh")[0].split("<<'END'\n")[1].split("\nEND\n")[0].splitlines()
    for line in lines[::-1] if backwards else lines:
        assert run.land(ORDERS, line, format="cassandra-mutation").code == 0


def steps() -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", blocks("console")[0], flags=re.MULTILINE)[1:]
    return [(command, claimed) for command, _, claimed in (part.partition("\n") for part in parts)]


@pytest.mark.parametrize("backwards", [False, pytest.param(True, marks=pytest.mark.heavy)], ids=["in order", "late"])
def test_the_documented_example_is_what_is_printed(run: CommandLine, backwards: bool) -> None:
    land_example(run, backwards=backwards)
    assert len(steps()) == 2
    for command, claimed in steps():
        answer = run(*shlex.split(command)[1:])
        assert (answer.code, answer.err) == (0, ""), answer.err
        assert answer.out.replace("\r\n", "\n").strip() == claimed.strip()


def test_every_format_has_the_same_versions(run: CommandLine) -> None:
    land_example(run)
    lines = run("history", ORDERS, "--format", "jsonl").rows
    assert run("history", ORDERS, "--format", "jsonl", "--limit", "2").rows == lines[:2]
    assert run("history", ORDERS, "--format", "jsonl", "--strategy", "window").rows == lines
    assert json.loads(run("history", ORDERS, "--format", "json").out) == lines
    read = csv.DictReader(io.StringIO(run("history", ORDERS, "--format", "csv").out))
    assert [{name: value or None for name, value in row.items()} for row in read] == [{**r, "id": str(r["id"])} for r in lines]
    assert [row["valid_to"] for row in lines][-1] is None


def test_what_was_written_later_can_be_left_out(run: CommandLine) -> None:
    land_example(run)
    until = run("history", ORDERS, "--format", "jsonl", "--written-as-of", "2023-11-15T22:13:20Z").rows
    assert [(row["state"], row["valid_to"]) for row in until][-1] == ("paid", None)
    early = run("history", ORDERS, "--format", "jsonl", "--as-of", "2023-11-14T23:00:00Z").rows
    assert [row["note"] for row in early] == ["hurry", "hurry", None]
    assert run("history", ORDERS, "--format", "jsonl", "--landed-as-of", "2001-01-01").rows == []


def item(position: int, *rows: dict[str, Any], id: int = 1) -> str:
    place = {"node": "n", "segment": 1, "position": position, "keyspace": "shop", "table": "items", "partition": {"id": id}}
    return json.dumps({"format": "cassandra-mutation/1", **place, "rows": rows})


def line(number: int, written: int) -> dict[str, Any]:
    cells = [{"column": "n", "written": written, "value": number}]
    return {"kind": "row", "clustering": {"line": number}, "liveness": {"written": written}, "cells": cells}


def static(text: str, written: int) -> dict[str, Any]:
    return {"kind": "static", "cells": [{"column": "valid_from", "written": written, "value": text}]}


@pytest.mark.heavy
def test_a_key_may_name_a_row_or_a_partition(run: CommandLine) -> None:
    lines = [
        item(1, static("a", START)),
        item(2, line(1, START + DAY)),
        item(3, line(2, START + 2 * DAY)),
        item(4, line(5, 0), id=2),
    ]
    assert run.land(ITEMS, *lines, format="cassandra-mutation").code == 0

    def asked(key: str) -> list[tuple[Any, ...]]:
        rows = run("history", ITEMS, "--key", key, "--format", "jsonl").rows
        return [(row["line"], row["valid_from"], row["_valid_from"][:10], (row["_valid_to"] or "")[:10]) for row in rows]

    alone = (None, "a", "2023-11-14", "2023-11-15")
    first, second = (1, "a", "2023-11-15", ""), (2, "a", "2023-11-16", "")
    assert asked('{"id": 1}') == [alone, first, second]
    assert asked('{"id": 1, "line": 2}') == [second]
    assert asked('{"id": 3}') == []
    fewer = run("history", ITEMS, "--columns", "n", "--format", "jsonl").rows[0]
    assert [*fewer] == ["id", "line", "n", "valid_from", "valid_to"], "the whole row key, and spans by their own names"
    found = Project.load().table(ITEMS).history()
    spans = [replace(found, columns=("id", name)).span_names for name in ("valid_from", "valid_to", "n")]
    assert spans == [("_valid_from", "_valid_to")] * 2 + [("valid_from", "valid_to")]


@pytest.mark.heavy
def test_a_source_ordered_by_position_has_versions_by_position(run: CommandLine) -> None:
    write_project(table(ORDERS, "schema.cql", "key-value"))
    key = {"id": 1}
    told = [(7, {"state": "open"}), (9, {"state": "paid"}), (12, None), (11, {"state": "sent"})]
    events = [json.dumps({"key": key, "value": value and {**key, **value}, "offset": offset}) for offset, value in told]
    Path("first.jsonl").write_text(f"{events[0]}\n")
    Project.load("cdc_views.yml").table(ORDERS).land("first.jsonl", now=datetime(2020, 1, 1, tzinfo=timezone.utc))
    assert run.land(ORDERS, *events, format="key-value").code == 0
    rows = run("history", ORDERS, "--columns", "state", "--format", "jsonl").rows
    assert rows[0]["landed_at"] == "2020-01-01T00:00:00.000000Z" < rows[1]["landed_at"], "when the event first landed"
    spans = [(row["state"], row["valid_from"] >> 32, row["valid_to"] >> 32) for row in rows]
    assert spans == [("open", 7, 9), ("paid", 9, 11), ("sent", 11, 12)]
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z", row["landed_at"]) for row in rows)
    answer = run("history", ORDERS, "--written-as-of", "2023-11-15")
    assert (answer.code, answer.out) == (2, "")
    assert "log position" in answer.err


def test_versions_of_a_database_are_by_its_log_s_position(run: CommandLine) -> None:
    Path("t.sql").write_text("CREATE TABLE public.t (id int PRIMARY KEY, note text);")
    write_project(table("public.t", "t.sql", "debezium"))
    told = [("b", 12, 1_600_000_000_000), ("a", 10, 1_700_000_000_000)]
    assert run.land("public.t", *(envelope(1, note, lsn=lsn, ts_ms=at) for note, lsn, at in told)).code == 0
    first, second = run("history", "public.t", "--format", "jsonl").rows
    assert (first["note"], second["note"], second["valid_to"]) == ("a", "b", None), "the clock decides nothing"
    assert first["valid_from"] < first["valid_to"] == second["valid_from"]
    assert {type(first["valid_from"]), type(second["valid_from"])} == {int}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--key", '{"idd": 1}'], "did you mean 'id'?"),
        (["--key", "7"], "a JSON object such as"),
        (["--key", '{"id": "x"}'], "the key of shop.orders: 'id'"),
        (["--columns", "stat"], "did you mean 'state'?"),
        (["--limit", "-1"], "limit is -1"),
        (["--as-of", "noon"], "as_of is 'noon'"),
        (["--format", "jsnl"], "did you mean 'jsonl'?"),
        (["--where", "state = 1 and"], "is not a SQL expression"),
        (["--where", "valid_to is null"], "has no column 'valid_to'"),
        (["--engine", "duckdbb"], "did you mean 'duckdb'?"),
        (["--strategy", "windw"], "did you mean 'window'?"),
        (["--strategy", "kernel"], "is for reads on Spark"),
    ],
)
def test_bad_input_is_one_clear_message(run: CommandLine, arguments: list[str], expected: str) -> None:
    answer = run("history", ORDERS, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert expected in answer.err
    assert answer.err.count("\n") == 1


def test_nothing_landed_is_no_versions_and_a_note(run: CommandLine) -> None:
    for more in ([], ["--key", '{"id": 1}']):
        answer = run("history", ORDERS, "--format", "jsonl", *more)
        assert (answer.code, answer.out) == (0, "")
        assert "nothing has landed" in answer.err


def test_the_api_gives_native_versions(run: CommandLine) -> None:
    land_example(run)
    found = Project.load("cdc_views.yml").table(ORDERS).history({"id": 7}, columns=["state"])
    last = list(found.versions())[-1]
    assert (len(found), last.row, last.valid_from, last.is_current) == (3, {"id": 7, "state": "open"}, START + 3 * DAY, True)
