"""A small table and its events, for the tests of landing, the project file and the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from cdc_views.engines.base import RawTable
from cdc_views.landing import quarantine_location
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.relation import Relation

CQL = "CREATE TABLE shop.orders (id int, line int, state text, note text, PRIMARY KEY (id, line));\n"
NOW = 1_800_000_000

SCHEMA = TableSchema(
    "shop",
    "orders",
    (
        Column("id", Scalar(Kind.INT), Role.PARTITION),
        Column("line", Scalar(Kind.INT), Role.CLUSTERING),
        Column("state", Scalar(Kind.TEXT)),
        Column("note", Scalar(Kind.TEXT)),
    ),
)


def event(number: int, *, state: str = "open", table: str = "orders", node: str = "n1", **more: Any) -> str:
    """One mutation that sets `state` of row (number, 0) at write time `number`."""
    body: dict[str, Any] = {
        "format": "cassandra-mutation/1",
        "node": node,
        "segment": 1,
        "position": number,
        "keyspace": "shop",
        "table": table,
        "partition": {"id": number},
        "rows": [
            {
                "kind": "row",
                "clustering": {"line": 0},
                "liveness": {"written": number},
                "cells": [{"column": "state", "written": number, "value": state}],
            }
        ],
    }
    return json.dumps(body | more)


def write_lines(path: Path, *lines: str | bytes) -> Path:
    """Write lines, each with its newline."""
    path.write_bytes(b"".join(_bytes(line) + b"\n" for line in lines))
    return path


def append_lines(path: Path, *lines: str | bytes) -> Path:
    """Append lines, each with its newline."""
    return path.write_bytes(path.read_bytes() + b"".join(_bytes(line) + b"\n" for line in lines)) and path


def _bytes(line: str | bytes) -> bytes:
    return line.encode() if isinstance(line, str) else line


def raw_table(folder: Path, schema: TableSchema = SCHEMA) -> RawTable:
    """The raw table under `folder`."""
    return RawTable(str(folder / "raw" / "shop_orders"), Relation(schema))


def landed_ids(raw: RawTable) -> list[int]:
    """The partition keys of the rows in the raw table, sorted, with repetition."""
    return sorted(DeltaTable(raw.location).to_pyarrow_dataset().to_table(columns=["id"]).column("id").to_pylist())


def quarantined(raw: RawTable) -> list[dict[str, Any]]:
    """The rows of the quarantine, in the order of their lines; none where there is no quarantine."""
    location = quarantine_location(raw)
    if not DeltaTable.is_deltatable(location):
        return []
    rows: list[dict[str, Any]] = DeltaTable(location).to_pyarrow_dataset().to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["source"], row["offset"]))


def make_project(folder: Path, **table: Any) -> Path:
    """Write a project of one table, shop.orders; `table` overrides its keys. Returns the project file."""
    (folder / "schema.cql").write_text(CQL)
    body = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}} | table
    file = folder / "cdc_views.yml"
    file.write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [body]}))
    return file


def make_project_reaching(folder: Path, options: Mapping[str, str], **more: object) -> Path:
    """Make the project; its file says how to reach a store, and the environment does not. `more` are keys of the file."""
    file = make_project(folder)
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "storage_options": dict(options), **more}))
    return file


def project_at(folder: Path, warehouse: str, options: Mapping[str, str]) -> Path:
    """Write a project of one table whose warehouse is on a store; return its file."""
    table = {"name": "shop.orders", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}}
    told = {"name": "t", "engine": "duckdb", "warehouse": warehouse, "storage_options": dict(options), "tables": [table]}
    (folder / "schema.cql").write_text(CQL)
    (folder / "cdc_views.yml").write_text(json.dumps(told))
    return folder / "cdc_views.yml"
