"""The projects of `ui.py`: an empty one, many tables, many rows, many columns, many candidates of a cell."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import yaml
from deltalake import write_deltalake
from generate import MACRO, SCHEMA, cells_sql

from cdc_views.api import Project
from cdc_views.landing import create_raw
from cdc_views.storage.relation import RawTable, Relation

TABLES, ROWS, COLUMNS, CANDIDATES = 1_000, 1_000_000, 1_000, 10_000
_WRITTEN = 1_700_000_000_000_000
_BENCH = (
    "CREATE TABLE bench.events (account int, item int, c0 int, c1 bigint, c2 text, c3 boolean, c4 timestamp, c5 text, c6 int, "
    "c7 uuid, PRIMARY KEY (account, item));\n"
)


@dataclass(frozen=True)
class Shown:
    """A project file, and the pages to measure: what each is called, and its path."""

    project: Path
    pages: dict[str, str]


def empty(folder: Path) -> Shown:
    """One table, nothing landed."""
    _project(folder, {"shop.orders": "CREATE TABLE shop.orders (id int PRIMARY KEY, state text);\n"})
    return _shown(folder, {"home": "/", "rows": "/t/shop_orders/rows", "columns": "/t/shop_orders/columns"})


def many_tables(folder: Path) -> Shown:
    """A thousand tables of one row each, on the home page."""
    names = [f"shop.table{number:04d}" for number in range(TABLES)]
    project = _project(folder, {name: f"CREATE TABLE {name} (id int PRIMARY KEY, state text);\n" for name in names})
    for name in names:
        _land(project, name, [[_cell("state", "open")]])
    return _shown(folder, {"home": "/", "one table": "/t/shop_table0500/rows"})


def many_rows(folder: Path) -> Shown:
    """A million rows, two facts each, in a state."""
    project = _project(folder, {"bench.events": _BENCH})
    raw = RawTable(str(folder / "warehouse" / "raw" / "bench_events"), Relation(SCHEMA))
    create_raw(raw, format_name="cassandra-mutation")
    with duckdb.connect() as connection:
        connection.execute(MACRO)
        events = f"SELECT i, hash(i * 7 + 1) % {ROWS} AS k, 'row' AS kind, {_WRITTEN} + i AS w FROM range({2 * ROWS}) AS t(i)"
        facts = connection.sql(f"WITH events AS ({events}) {cells_sql(0)}").to_arrow_table()
    write_deltalake(raw.location, facts.cast(raw.relation.arrow_schema()), mode="append")
    project.table("bench.events").materialize()
    at = "/t/bench_events/rows"
    pages = {"rows": at, "sorted": f"{at}?order=c0", "filtered": f"{at}?where={quote('c6 = 7')}", "deep": f"{at}?offset=500000"}
    return _shown(folder, pages | {"columns": "/t/bench_events/columns", "home": "/"})


def many_columns(folder: Path) -> Shown:
    """Rows of a thousand columns."""
    names = [f"column_{number:04d}" for number in range(COLUMNS)]
    columns = ", ".join(f"{name} text" for name in names)
    project = _project(folder, {"shop.wide": f"CREATE TABLE shop.wide (id int PRIMARY KEY, {columns});\n"})
    _land(project, "shop.wide", [[_cell(name, f"value of {name}") for name in names]] * 10)
    pages = {"rows": "/t/shop_wide/rows", "row": _row("shop_wide", {"id": 1}), "columns": "/t/shop_wide/columns"}
    return _shown(folder, pages)


def many_candidates(folder: Path) -> Shown:
    """A cell that was written ten thousand times."""
    project = _project(folder, {"shop.hot": "CREATE TABLE shop.hot (id int PRIMARY KEY, state text);\n"})
    _land(project, "shop.hot", [[_cell("state", f"value {n}", later=n)] for n in range(CANDIDATES)], ids=[1] * CANDIDATES)
    cell = f"/t/shop_hot/cell?key={quote(json.dumps({'id': 1}))}&column=state"
    return _shown(folder, {"row": _row("shop_hot", {"id": 1}), "cell": cell})


PROJECTS: dict[str, Callable[[Path], Shown]] = {
    "empty": empty,
    "1,000 tables": many_tables,
    "1,000,000 rows": many_rows,
    "1,000 columns": many_columns,
    "10,000 candidates": many_candidates,
}


def _project(folder: Path, tables: dict[str, str]) -> Project:
    folder.mkdir(parents=True)
    told = []
    for name, cql in tables.items():
        (folder / f"{name}.cql").write_text(cql, encoding="utf-8")
        told.append({"name": name, "schema": f"{name}.cql", "raw": {"format": "cassandra-mutation"}})
    file = folder / "cdc_views.yml"
    file.write_text(yaml.safe_dump({"name": "bench", "engine": "duckdb", "tables": told}), encoding="utf-8")
    return Project.load(file)


def _land(project: Project, name: str, rows: list[list[dict[str, Any]]], *, ids: list[int] | None = None) -> None:
    keyspace, table = name.split(".")
    at = {"format": "cassandra-mutation/1", "node": "n1", "segment": 1, "keyspace": keyspace, "table": table}
    lines = [
        json.dumps({**at, "position": n, "partition": {"id": (ids or range(1, len(rows) + 1))[n]}, "rows": [_fact(cells)]})
        for n, cells in enumerate(rows)
    ]
    file = project.root / f"{name}.jsonl"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    project.table(name).land(file)


def _fact(cells: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kind": "row", "clustering": {}, "liveness": {"written": _WRITTEN}, "cells": cells}


def _cell(column: str, value: str, *, later: int = 0) -> dict[str, Any]:
    return {"column": column, "written": _WRITTEN + later, "value": value}


def _shown(folder: Path, pages: dict[str, str]) -> Shown:
    return Shown(folder / "cdc_views.yml", pages)


def _row(slug: str, key: dict[str, Any]) -> str:
    return f"/t/{slug}/row?key={quote(json.dumps(key))}"
