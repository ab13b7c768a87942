"""A project of one table whose schema and facts are given, not read: for what only a project's table can do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from deltalake import write_deltalake

from cdc_views.api import Project, Table
from cdc_views.landing import create_raw
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact

_FORMATS = {"micros": "cassandra-mutation", "log_position": "debezium"}


def project_of(schema: TableSchema, order: str = "micros") -> Table:
    """Return the table of a new project in the working directory, its raw table empty."""
    Path("schema.cql").touch()
    entry = {"name": schema.full_name, "schema": "schema.cql", "raw": {"format": _FORMATS[order]}}
    Path("cdc_views.yml").write_text(json.dumps({"name": "tests", "engine": "duckdb", "tables": [entry]}))
    (made,) = Project.load().tables
    made.__dict__["schema"] = schema
    create_raw(made.raw, format_name=made.format.name)
    return made


def add(table: Table, facts: Sequence[Fact], *, landed_at: int = 0) -> None:
    """Land facts in one commit."""
    rows = table.raw.relation.rows(facts, landed_at=landed_at)
    write_deltalake(table.raw.location, rows, mode="append", schema_mode="merge")
