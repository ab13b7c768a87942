"""A table of orders of which one is to be forgotten, and what looks for what is left of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from helpers.command_line import CommandLine, table, write_project

NAME = "shop.orders"
CQL = "CREATE TABLE shop.orders (id int, line int, owner text static, state text, PRIMARY KEY (id, line));\n"
FORMAT = "cassandra-mutation"
SECRET = "zanzibar-17"
"""A value of the forgotten key that no other key has."""
KEY = '{"id": 1, "line": 6}'
LATER = 1 << 52
"""A write time after any instant of forgetting here: the year 2112."""


def mutation(number: int, *, state: str | None = None, written: int = 1, **more: Any) -> str:
    """Line `number` of order `number % 5`."""
    cell = {"column": "state", "written": written, "value": state or f"state {number}"}
    row = {"kind": "row", "clustering": {"line": number}, "liveness": {"written": written}, "cells": [cell]}
    event = {"format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": number, "keyspace": "shop"}
    return json.dumps({**event, "table": "orders", "partition": {"id": number % 5}, "rows": [row], **more})


def begun(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Twenty rows, a state with an older generation, and three landings since; the secret is in two of them."""
    monkeypatch.chdir(folder)
    Path("schema.cql").write_text(CQL)
    write_project(table(NAME, "schema.cql", FORMAT))
    line = CommandLine(capsys)
    land(line, *(mutation(n) for n in range(20)), mutation(6, state=SECRET, written=2), file="1.jsonl")
    assert line("materialize").code == 0
    assert line("rebuild", NAME).code == 0
    land(line, mutation(6, state=f"{SECRET} again", written=3), mutation(21), file="2.jsonl")
    land(line, mutation(22), file="3.jsonl")
    return line


def land(run: CommandLine, *lines: str, file: str) -> None:
    """Land events; none may be bad."""
    answer = run.land(NAME, *lines, format=FORMAT, file=file)
    assert answer.code == 0, answer.err


def forget(run: CommandLine, *more: str, key: str = KEY) -> None:
    answer = run("forget", NAME, "--key", key, *more)
    assert answer.code == 0, answer.err
    assert "nothing of the key is left" in answer.err


def without(rows: list[dict[str, Any]], **key: int) -> list[dict[str, Any]]:
    return [row for row in rows if any(row[name] != value for name, value in key.items())]


def texts_everywhere(*folders: str) -> Iterator[tuple[str, str]]:
    """Every file under the folders as text, Parquet decoded; has nothing in common with the proof that it checks."""
    for folder in folders:
        for file in Path(folder).rglob("*"):
            if file.suffix == ".parquet":
                footer = pq.read_metadata(file)
                statistics = [footer.row_group(n).to_dict() for n in range(footer.num_row_groups)]
                yield str(file), f"{pq.ParquetFile(file).read().to_pylist()} {statistics}"
            elif file.is_file():
                yield str(file), file.read_bytes().decode(errors="replace")


def files_with(text: str, *, table: str = "") -> list[str]:
    """The files that hold a text, of all tables or of one."""
    found = [name for name, content in texts_everywhere("warehouse") if text in content]
    return [name for name in found if table in name]
