"""Reading a table as it was at an exported snapshot, in the order of its primary key, a part at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import IsolationLevel

from cdc_producers.postgres.catalog import PostgresTable
from cdc_producers.postgres.connections import connect, identifier, postgres_errors, rows
from cdc_producers.postgres.slots import ExportedSnapshot

CHUNK_ROWS = 20_000
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
"""Source: PostgreSQL 17, COPY, "Text Format"."""


@contextmanager
def reading(snapshot: ExportedSnapshot) -> Iterator[Any]:
    """A connection that sees the database as of the snapshot."""
    connection = connect()
    try:
        connection.autocommit, connection.read_only = False, True
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
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

    table: PostgresTable
    names: tuple[str, ...]
    after: tuple[str | None, ...] | None = None
    any_set: tuple[str, ...] = ()
    partition: str = ""
    """Only its rows, as SQL writes its name; empty: of all."""


def read_rows(connection: Any, part: Part, *, chunk_rows: int = CHUNK_ROWS) -> Iterator[tuple[str | None, ...]]:
    """Return each row once, as printed; in the order of the primary key, of a table without one in any order."""
    key = part.table.primary_key
    if not key:
        yield from _printed(connection, _select(part), ())
        return
    places = [part.names.index(name) for name in key]
    last = part.after
    while True:
        count = 0
        for row in _printed(connection, _chunk(part, is_first=last is None, size=chunk_rows), last or ()):
            count, last = count + 1, tuple(row[i] for i in places)
            yield row
        if count < chunk_rows:
            return


def greatest(connection: Any, table: PostgresTable, keys: Sequence[tuple[str, ...]]) -> tuple[str | None, ...] | None:
    """Return the last of these keys, in the order of the primary key, that the table has; None where it has none of them."""
    if not keys:
        return None
    key = _listed(table.primary_key)
    rows_of = ", ".join(f"({', '.join(['%s'] * len(table.primary_key))})" for _ in keys)
    name = table.sql_rows.replace("%", "%%")
    text = f"SELECT {key} FROM {name} WHERE ({key}) IN ({rows_of}) ORDER BY {_descending(table.primary_key)} LIMIT 1"
    return next(_printed(connection, text, [value for one in keys for value in one]), None)


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


def _printed(connection: Any, text: str, values: Sequence[str | None]) -> Iterator[tuple[str | None, ...]]:
    """Return the rows of a query, every value as the server prints it; in memory is what libpq has received."""
    copied = f"COPY ({text if values else text.replace('%%', '%')}) TO STDOUT"  # without values nothing is put in for a %
    with postgres_errors("reading the snapshot"), connection.cursor() as cursor, cursor.copy(copied, tuple(values)) as lines:
        for line in lines:
            yield _values(bytes(line).decode())


def _values(line: str) -> tuple[str | None, ...]:
    found = line[:-1].split("\t")
    return tuple([_unescaped(value) for value in found] if "\\" in line else found)


def _unescaped(value: str) -> str | None:
    return None if value == "\\N" else _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), value)
