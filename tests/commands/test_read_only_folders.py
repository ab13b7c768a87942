"""Folders that cannot be written: reads answer as before, and what must write says so and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.command_line import CommandLine, table, write_project
from helpers.unprivileged import cdc_views_unprivileged

ORDERS = "shop.orders"
FORMAT = "cassandra-mutation"


def event(number: int) -> str:
    """A mutation that inserts one row."""
    cells = [{"column": "state", "written": number, "value": "open"}]
    row = {"kind": "row", "clustering": {}, "liveness": {"written": number}, "cells": cells}
    place = {"node": "n1", "segment": 1, "position": number, "keyspace": "shop", "table": "orders", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **place, "rows": [row]})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A project of one table with two rows, and a file with a third."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text("CREATE TABLE shop.orders (id int PRIMARY KEY, state text);\n")
    write_project(table(ORDERS, "schema.cql", FORMAT))
    command_line = CommandLine(capsys)
    assert command_line.land(ORDERS, event(1), event(2), format=FORMAT).code == 0
    Path("more.jsonl").write_text(event(3) + "\n")
    return command_line


@pytest.fixture
def read_only(run: CommandLine) -> dict[Path, bytes]:
    """The files of the project's warehouse, applied and materialized, none of which can be written."""
    assert run("apply").code == run("materialize").code == 0
    places = [Path("warehouse"), *Path("warehouse").rglob("*")]
    for place in places:
        place.chmod(0o500 if place.is_dir() else 0o400)
    return {place: place.read_bytes() for place in places if place.is_file()}


READS = (
    ("query", "SELECT count(*) FROM shop.orders"), ("explain", ORDERS, "--key", '{"id": 1}'), ("validate", "--no-docs"),
    ("report", "--out", "report"),
)  # fmt: skip


def test_a_read_only_warehouse_is_read(read_only: dict[Path, bytes]) -> None:
    for command in READS:
        answer = cdc_views_unprivileged(*command)
        assert (answer.returncode, "error:" in answer.stderr) == (0, False), (command, answer.stderr)
    assert_unchanged(read_only)


WRITES = (("apply",), ("land", FORMAT, "more.jsonl", "--table", ORDERS), ("maintain",), ("rebuild", ORDERS))


@pytest.mark.parametrize("command", WRITES, ids=lambda command: command[0])
def test_what_writes_to_a_read_only_warehouse_says_so(read_only: dict[Path, bytes], command: tuple[str, ...]) -> None:
    answer = cdc_views_unprivileged(*command)
    errors = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert (answer.returncode, len(errors)) == (3, 1), answer.stderr
    assert f"{Path.cwd()}/warehouse" in errors[0]
    assert "permission" in errors[0].lower()
    assert "Traceback" not in answer.stderr
    assert_unchanged(read_only)


def test_a_warehouse_that_cannot_be_made(run: CommandLine) -> None:
    project = json.loads(Path("cdc_views.yml").read_text()) | {"warehouse": "/proc/nowhere"}
    Path("cdc_views.yml").write_text(json.dumps(project))
    answer = run("apply")
    assert (answer.code, answer.out) == (3, "")
    assert "/proc/nowhere" in answer.err


def assert_unchanged(before: dict[Path, bytes]) -> None:
    """The warehouse has the same files with the same content."""
    found = {place: place.read_bytes() for place in Path("warehouse").rglob("*") if place.is_file()}
    assert found == before
