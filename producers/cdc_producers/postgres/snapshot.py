"""Reading a table as it was at an exported snapshot, in the order of its primary key, a part at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2.extensions

from cdc_producers.postgres.catalog import SourceTable
from cdc_producers.postgres.connections import connect, identifier, postgres_errors, rows
from cdc_producers.postgres.slots import ExportedSnapshot

CHUNK_ROWS = 20_000
_FETCHED_ROWS = 200
"""Rows in memory at once, beside the queue: a row may be large."""


@contextmanager
def reading(snapshot: ExportedSnapshot) -> Iterator[Any]:
    """A connection that sees the database as of the snapshot, and every value as the server prints it."""
    connection = connect()
    try:
        numbers = tuple(number for (number,) in rows(connection, "SELECT oid::bigint FROM pg_type", doing="reading its types"))
        printed = psycopg2.extensions.new_type(numbers, "PRINTED", lambda value, _: value)
        psycopg2.extensions.register_type(printed, connection)
        connection.autocommit = False
        connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
        rows(connection, "SET TRANSACTION SNAPSHOT %s", (snapshot.name,), doing="taking the snapshot")
        yield connection
    finally:
        with postgres_errors("closing"):
            connection.close()


@dataclass(frozen=True, slots=True)
class Part:
    """What is read of a table.

    Attributes:
        table: The table.
        names: Columns, in the order of the rows' values; the primary key is among them.
        after: The key, in the order of the primary key, that rows come after; None: from the first on.
        any_set: Only rows where one of these columns is not null; none: all.
    """

    table: SourceTable
    names: tuple[str, ...]
    after: tuple[str | None, ...] | None = None
    any_set: tuple[str, ...] = ()
    partition: str = ""
    """Only its rows, as SQL writes its name; empty: of all."""


def read_rows(connection: Any, part: Part, *, chunk_rows: int = CHUNK_ROWS) -> Iterator[tuple[str | None, ...]]:
    """Return each row once, as printed; in the order of the primary key, of a table without one in any order."""
    key = part.table.primary_key
    if not key:
        yield from _fetched(connection, _select(part), ())
        return
    places = [part.names.index(name) for name in key]
    last = part.after
    while True:
        count = 0
        for row in _fetched(connection, _chunk(part, is_first=last is None, size=chunk_rows), last or ()):
            count, last = count + 1, tuple(row[i] for i in places)
            yield row
        if count < chunk_rows:
            return


def greatest(connection: Any, table: SourceTable, keys: Sequence[tuple[str, ...]]) -> tuple[str | None, ...] | None:
    """Return the last of these keys, in the order of the primary key, that the table has; None where it has none of them."""
    if not keys:
        return None
    key = _listed(table.primary_key)
    rows_of = ", ".join(f"({', '.join(['%s'] * len(table.primary_key))})" for _ in keys)
    name = table.sql_rows.replace("%", "%%")
    text = f"SELECT {key} FROM {name} WHERE ({key}) IN ({rows_of}) ORDER BY {_descending(table.primary_key)} LIMIT 1"
    found = rows(connection, text, tuple(value for one in keys for value in one), doing="looking where the snapshot stopped")
    return tuple(found[0]) if found else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(identifier(name) for name in names).replace("%", "%%")


def _descending(names: Sequence[str]) -> str:
    return ", ".join(f"{identifier(name)} DESC" for name in names).replace("%", "%%")


def _select(part: Part) -> str:
    text = f"SELECT {_listed(part.names)} FROM {(part.partition or part.table.sql_rows).replace('%', '%%')}"
    if not part.any_set:
        return text
    is_set = " OR ".join(f"{identifier(name)} IS NOT NULL" for name in part.any_set).replace("%", "%%")
    return f"{text} WHERE ({is_set})"


def _chunk(part: Part, *, is_first: bool, size: int) -> str:
    key = _listed(part.table.primary_key)
    text = _select(part)
    if not is_first:
        # literals without a type take that of their column
        after = ", ".join(["%s"] * len(part.table.primary_key))
        text += f" {'AND' if part.any_set else 'WHERE'} ({key}) > ({after})"
    return f"{text} ORDER BY {key} LIMIT {size}"


def _fetched(connection: Any, text: str, values: Sequence[str | None]) -> Iterator[tuple[str | None, ...]]:
    with postgres_errors("reading the snapshot"), connection.cursor(name=f"cdc_views_{time.monotonic_ns()}") as cursor:
        cursor.itersize = _FETCHED_ROWS
        cursor.execute(text, tuple(values))
        yield from cursor
