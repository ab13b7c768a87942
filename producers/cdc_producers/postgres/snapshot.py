"""Reading a table as it was at an exported snapshot, in the order of its primary key, a part at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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


def read_rows(connection: Any, table: SourceTable, *, chunk_rows: int = CHUNK_ROWS) -> Iterator[tuple[str | None, ...]]:
    """Return each row once, as printed, columns as in `table.columns`; of a table without a primary key in any order."""
    if not table.primary_key:
        yield from _fetched(connection, _select(table), ())
        return
    names = [column.name for column in table.columns]
    places = [names.index(name) for name in table.primary_key]
    last: tuple[str | None, ...] | None = None
    while True:
        count = 0
        for row in _fetched(connection, _chunk(table, is_first=last is None, size=chunk_rows), last or ()):
            count, last = count + 1, tuple(row[i] for i in places)
            yield row
        if count < chunk_rows:
            return


def _select(table: SourceTable) -> str:
    return f"SELECT {', '.join(identifier(column.name) for column in table.columns)} FROM {table.sql_name}"


def _chunk(table: SourceTable, *, is_first: bool, size: int) -> str:
    key = ", ".join(identifier(name) for name in table.primary_key)
    if is_first:
        return f"{_select(table)} ORDER BY {key} LIMIT {size}"
    # literals without a type take that of their column
    select, key = _select(table).replace("%", "%%"), key.replace("%", "%%")
    after = ", ".join(["%s"] * len(table.primary_key))
    return f"{select} WHERE ({key}) > ({after}) ORDER BY {key} LIMIT {size}"


def _fetched(connection: Any, text: str, values: Sequence[str | None]) -> Iterator[tuple[str | None, ...]]:
    with postgres_errors("reading the snapshot"), connection.cursor(name=f"cdc_views_{time.monotonic_ns()}") as cursor:
        cursor.itersize = _FETCHED_ROWS
        cursor.execute(text, tuple(values) or None)
        yield from cursor
