"""A project of one table, with a state and a serving table to come, whose raw table is put in doubt."""

from __future__ import annotations

import json
from pathlib import Path

from helpers.command_line import CommandLine, table, write_project
from helpers.comparing import raw_location

NAME = "shop.orders"
CQL = "CREATE TABLE shop.orders (id int, item int, state text, PRIMARY KEY (id, item));\n"
REMEDY = f"cdc-views rebuild {NAME} --accept"
AWAY = Path("raw.unmounted")


def begin() -> None:
    """Write the project into the working directory; nothing has landed."""
    Path("schema.cql").write_text(CQL)
    write_project(table(NAME, "schema.cql", "cassandra-mutation", materialize={"serving": {"name": "orders"}}))


def land(run: CommandLine, first: int, last: int) -> int:
    """Land one event for each of some keys; returns the exit code."""
    lines = [
        json.dumps({
            "format": "cassandra-mutation/1", "node": "n", "segment": 1, "position": number, "keyspace": "shop",
            "table": "orders", "partition": {"id": number},
            "rows": [{"kind": "row", "clustering": {"item": 0}, "liveness": {"written": 1},
                      "cells": [{"column": "state", "written": 1, "value": "open"}]}],
        })
        for number in range(first, last)
    ]  # fmt: skip
    return run.land(NAME, *lines, format="cassandra-mutation", file=f"{first}.jsonl").code


def keys(run: CommandLine, *more: str) -> list[int]:
    return sorted(row["id"] for row in run.query(NAME, *more))


def stored() -> dict[str, int]:
    """The tables' files of rows and entries of logs, and which generation is read, with their sizes."""
    files = [file for kind in ("*.parquet", "_delta_log/*.json", "current") for file in Path("warehouse").rglob(kind)]
    return {str(file): file.stat().st_size for file in files}


def refuses(run: CommandLine, *arguments: str, code: int = 3) -> str:
    """The command changes no table and says what to do; returns what it said."""
    before = stored()
    answer = run(*arguments)
    assert (answer.code, stored()) == (code, before), (arguments, answer)
    assert REMEDY in answer.err
    assert NAME in answer.err
    return answer.err


READS = (
    ("query", NAME), ("query", NAME, "--raw-only"), ("query", "SELECT count(*) AS n FROM orders"),
    ("materialize",), ("materialize", "--full"), ("apply",), ("plan",),
    ("explain", NAME, "--key", '{"id": 1, "item": 0}'), ("history", NAME), ("rebuild", NAME), ("maintain",),
    ("maintain", "--drop-raw-older-than", "0s"), ("maintain", "--restore-raw", "archive"),
    ("forget", NAME, "--key", '{"id": 1, "item": 0}'), ("generate",), ("replay", NAME), ("tail", NAME, "--once"),
)  # fmt: skip


BRIEFLY = (("query", NAME), ("materialize", "--full"))


def raw_of(run: CommandLine) -> Path:
    return Path(raw_location(NAME))


def raws() -> Path:
    """The folder of the raw tables."""
    return Path(raw_location(NAME)).parent
