"""A project to report on: names that are markup, keys and values that nobody is to read, and a table without events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cdc_views.api import Project

SECRET = "zq-secret"
"""In every key, value, path and bound of a row."""
COLUMN = "<script>alert('column')</script>"
EMPTY_TABLE = "shop.<img src=x onerror=alert(1)>"
NODE = "<b onclick=alert(2)>n3</b>"
TEST = "</td><script>alert('test')</script>"
AS_OF = 1_800_000_000

_CQL = f"""CREATE TABLE shop.orders (
  id text, line text, state text, "{COLUMN}" text, tags set<text>, notes map<text, text>, seen text static,
  PRIMARY KEY (id, line));
CREATE TABLE "shop"."{EMPTY_TABLE.partition(".")[2]}" (id int PRIMARY KEY, v text);
"""


def make_project(folder: Path, **orders: Any) -> Project:
    """Write the project: `shop.orders`, whose keys `orders` overrides, and a table in which nothing lands."""
    (folder / "schema.cql").write_text(_CQL, encoding="utf-8")
    (folder / "truth.jsonl").write_text(json.dumps({"id": f"{SECRET}-0", "line": f"{SECRET}-z"}) + "\n", encoding="utf-8")
    tests = [{"name": TEST, "holds": "state = 'paid'"}, {"truth": "truth.jsonl", "as_of": AS_OF}]
    table = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}, "replication_factor": 3}
    other = {"name": EMPTY_TABLE, "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    file = folder / "cdc_views.yml"
    body = {"name": "<u>shop</u>", "engine": "duckdb", "tables": [table | {"tests": tests} | orders, other]}
    file.write_text(json.dumps(body), encoding="utf-8")
    return Project.load(file)


def land(project: Project, *, rows: int = 3) -> None:
    """Land so many rows of one partition, a range deletion and a bad event: the rows from three nodes, the range from two."""
    root = project.root
    for number, node in enumerate(("n1", "n2", NODE)):
        lines = [_row(line, node=node) for line in range(rows)]
        lines += [_range(rows, node=node)] * (number < 2)
        lines += [f'{{"format": "{SECRET}"}}'] * (number == 0)
        file = root / f"node{number}.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        project.table("shop.orders").land(file)


def _row(number: int, *, node: str) -> str:
    written = 1_700_000_000_000_000 + number
    cells = [
        {"column": "state", "written": written, "value": f"{SECRET}-open"},
        {"column": COLUMN, "written": written, "value": f"{SECRET}<{number}>"},
        {"column": "tags", "path": f"{SECRET}-tag", "written": written, "value": ""},
        {"column": "notes", "path": f"{SECRET}-path", "written": written, "value": f"{SECRET}-note"},
    ]
    row = {"kind": "row", "clustering": {"line": f"{SECRET}-{number}"}, "liveness": {"written": written}, "cells": cells}
    return _event(number, node, [row])


def _range(number: int, *, node: str) -> str:
    start, end = ({"clustering": {"line": f"{SECRET}-{letter}"}, "inclusive": True} for letter in "09")
    deletion = {"written": 1_600_000_000_000_000, "deleted_at": 1_600_000_000}
    return _event(number, node, [{"kind": "range_deletion", "start": start, "end": end, "deletion": deletion}])


def _event(number: int, node: str, rows: list[dict[str, Any]]) -> str:
    at = {"node": node, "segment": 1, "position": number, "keyspace": "shop", "table": "orders"}
    return json.dumps({"format": "cassandra-mutation/1", **at, "partition": {"id": f"{SECRET}-0"}, "rows": rows})
