"""Comparing what a project's views show with what Cassandra itself answers."""

from __future__ import annotations

import json
import sqlite3
import struct
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

from cassandra import ConsistencyLevel, ReadFailure
from cassandra.cluster import Session
from cassandra.query import SimpleStatement
from deltalake import DeltaTable

from cdc_views.api import Project
from helpers.cassandra_workload import SHORT, TABLES
from helpers.command_line import CommandLine
from helpers.comparing import only_one_has

_READS_WITHIN = 30.0
_FLOATS = {"wide": ("f",)}


def settled() -> None:
    """Wait until every short-lived cell is gone, so that no read meets the second in which one goes."""
    time.sleep(SHORT + 1.5)


def source_rows(session: Session, keyspace: str, table: str) -> Counter[str]:
    """What the cluster shows at ALL, each row as a text."""
    text = SimpleStatement(f"SELECT JSON * FROM {keyspace}.{table}", consistency_level=ConsistencyLevel.ALL, fetch_size=500)
    found = [json.loads(row[0], parse_float=Decimal) for row in _answered(session, text)]
    return Counter(_canonical(table, {_plain(name): value for name, value in row.items()}) for row in found)


def _answered(session: Session, statement: SimpleStatement) -> list[tuple[str]]:
    """What a statement answers; a replica that learns of an ALTER only just now fails to read until it knows."""
    deadline = time.monotonic() + _READS_WITHIN
    while True:
        try:
            return [tuple(row) for row in session.execute(statement, timeout=60)]
        except ReadFailure:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def view_rows(run: CommandLine, keyspace: str, table: str, *more: str) -> Counter[str]:
    """What the view shows now, each row as a text."""
    return Counter(_canonical(table, row) for row in run.query(f"{keyspace}.{table}", *more))


def differences(session: Session, run: CommandLine, keyspace: str, *more: str, tables: tuple[str, ...] = TABLES) -> list[str]:
    """The rows that only one of cluster and view has; empty where they are equal. `more` is for `query`."""
    found = []
    for table in tables:
        source, view = source_rows(session, keyspace, table), view_rows(run, keyspace, table, *more)
        found += only_one_has(table, source.elements(), view.elements())
    return found


def _plain(name: str) -> str:
    """A column's name without the quotes that SELECT JSON keeps."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _canonical(table: str, row: dict[str, Any]) -> str:
    made = {name: _float(value) if name in _FLOATS.get(table, ()) else value for name, value in row.items()}
    return json.dumps(made, sort_keys=True, default=str, ensure_ascii=False)


def _float(value: Any) -> Any:
    return None if value is None else struct.pack(">d", float(value)).hex()


_MARK = "mark {} "
_MARKS = {
    "wide": ("pk, ck1, ck2", "-{1}, 0, '{0}'", "ck2"),
    "simple": ("k, a", "'{0}{1}', 1", "k"),
    "pairs": ("a, b, c", "-1, '{0}{1}', 0", "b"),
}


def mark(session: Session, keyspace: str, number: int, *, spread: int = 1, tables: tuple[str, ...] = ()) -> None:
    """Write rows at ALL that are only there to be waited for: each node's log has everything else before them.

    `spread`: in so many partitions of each table, so that nodes that hold a part of them have one each.
    """
    for table in tables or TABLES:
        columns, values, _ = _MARKS[table]
        for part in range(1, spread + 1):
            text = f"INSERT INTO {keyspace}.{table} ({columns}) VALUES ({values.format(_MARK.format(number), part)})"
            session.execute(SimpleStatement(text, consistency_level=ConsistencyLevel.ALL))


WITNESSES = -2
"""The partition key of the rows of `pairs` that only a test writes, and only it reads."""


def witness(session: Session, keyspace: str, number: int) -> None:
    """Write a row at QUORUM that no workload reads, so that a node that misses it gets it by a hint, or not at all."""
    text = f"INSERT INTO {keyspace}.pairs (a, b, c) VALUES ({WITNESSES}, 'witness', {number})"
    session.execute(SimpleStatement(text, consistency_level=ConsistencyLevel.QUORUM))


def read_at_all(session: Session, keyspace: str) -> None:
    """Read the witnesses at ALL, which repairs the nodes that missed some."""
    text = f"SELECT * FROM {keyspace}.pairs WHERE a = {WITNESSES} AND b = 'witness'"
    session.execute(SimpleStatement(text, consistency_level=ConsistencyLevel.ALL))


def witnessed_by(keyspace: str, number: int) -> set[str]:
    """The nodes in whose commit log the witness was, by what their agents have landed."""
    location = Project.load().table(f"{keyspace}.pairs").location
    found = DeltaTable(location).to_pyarrow_table(columns=["_origin"], filters=[("a", "=", WITNESSES), ("c", "=", number)])
    return {row["_origin"]["node"] for row in found.to_pylist()}


def landed_everywhere(keyspace: str, number: int, nodes: set[str], *, tables: tuple[str, ...] = ()) -> bool:
    """Whether the marks of that number have landed from each of these nodes."""
    return all(_landed_from(f"{keyspace}.{table}", number, table) >= nodes for table in tables or TABLES)


def _landed_from(full_name: str, number: int, table: str) -> set[str]:
    location, column = Project.load().table(full_name).location, _MARKS[table][2]
    if not DeltaTable.is_deltatable(location):
        return set()
    found = DeltaTable(location).to_pyarrow_table(columns=[column, "_origin"]).to_pylist()
    return {row["_origin"]["node"] for row in found if str(row[column]).startswith(_MARK.format(number))}


def lists_waiting(folder: Path) -> int:
    """How many rows' lists the agents that work under a folder have still to read again."""
    found = 0
    for path in folder.rglob("lists.db"):
        base = sqlite3.connect(path, timeout=30)
        try:
            found += int(base.execute("SELECT COUNT(*) FROM waiting").fetchone()[0])
        finally:
            base.close()
    return found
