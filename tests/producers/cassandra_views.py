"""Comparing what a project's views show with what Cassandra itself answers."""

from __future__ import annotations

import json
import struct
import time
from collections import Counter
from decimal import Decimal
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import Session
from cassandra.query import SimpleStatement
from cassandra_workload import SHORT, TABLES
from command_line import CommandLine

_FLOATS = {"wide": ("f",)}


def settled() -> None:
    """Wait until every short-lived cell is gone, so that no read meets the second in which one goes."""
    time.sleep(SHORT + 1.5)


def source_rows(session: Session, keyspace: str, table: str) -> Counter[str]:
    """What the cluster shows at ALL, each row as a text."""
    text = SimpleStatement(f"SELECT JSON * FROM {keyspace}.{table}", consistency_level=ConsistencyLevel.ALL, fetch_size=500)
    found = [json.loads(row[0], parse_float=Decimal) for row in session.execute(text, timeout=60)]
    return Counter(_canonical(table, {_plain(name): value for name, value in row.items()}) for row in found)


def view_rows(run: CommandLine, keyspace: str, table: str, *more: str) -> Counter[str]:
    """What the view shows now, each row as a text."""
    return Counter(_canonical(table, row) for row in run.query(f"{keyspace}.{table}", *more))


def differences(session: Session, run: CommandLine, keyspace: str, *more: str, tables: tuple[str, ...] = TABLES) -> list[str]:
    """The rows that only one of cluster and view has; empty where they are equal. `more` is for `query`."""
    found = []
    for table in tables:
        source, view = source_rows(session, keyspace, table), view_rows(run, keyspace, table, *more)
        found += [f"{table}: only the cluster has {row}" for row in source - view]
        found += [f"{table}: only the view has {row}" for row in view - source]
    return found


def _plain(name: str) -> str:
    """A column's name without the quotes that SELECT JSON keeps."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _canonical(table: str, row: dict[str, Any]) -> str:
    made = {name: _float(value) if name in _FLOATS.get(table, ()) else value for name, value in row.items()}
    return json.dumps(made, sort_keys=True, default=str, ensure_ascii=False)


def _float(value: Any) -> Any:
    return None if value is None else struct.pack(">d", float(value)).hex()
