"""Tables of a PostgreSQL of the tests' own, and answers as JSON tells them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pyarrow as pa
from services.postgres import running

_SCALARS = [
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_decimal, "numeric(38, 0)"),
    (pa.types.is_timestamp, "timestamptz"),
]


class Database:
    """One database, in a collation that is not "C"."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection, self._types = connection, count()

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql.encode())  # bytes: not a template
            while cursor.nextset():
                pass
            return list(cursor.fetchall()) if cursor.description else []

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a SELECT, as JSON tells them."""
        found = self.execute(f"SELECT row_to_json(_row)::text FROM (\n{sql}\n) AS _row;")
        return [json.loads(line, parse_int=_number) for (line,) in found]

    def load(self, name: str, rows: pa.Table) -> None:
        """Make the rows a table, with a composite type for each struct."""
        types: list[str] = []
        columns = ", ".join(f'"{f.name}" {self._type(f.type, types)}' for f in rows.schema)
        self.execute(f"DROP TABLE IF EXISTS {name} CASCADE; {' '.join(types)} CREATE TABLE {name} ({columns});")
        self.execute("CREATE TEMP TABLE IF NOT EXISTS lines (line text); TRUNCATE lines")
        with self._connection.cursor() as cursor, cursor.copy("COPY lines FROM STDIN") as lines:
            for row in rows.to_pylist():
                lines.write_row([json.dumps(plain(row))])
        self.execute(f"INSERT INTO {name} SELECT r.* FROM lines, json_populate_record(NULL::{name}, line::json) AS r;")

    def keywords(self) -> list[str]:
        """PostgreSQL's own."""
        return [word for (word,) in self.execute("SELECT word FROM pg_get_keywords()")]

    def _type(self, arrow: pa.DataType, types: list[str]) -> str:
        if pa.types.is_list(arrow):
            return f"{self._type(arrow.value_type, types)}[]"
        if pa.types.is_struct(arrow):
            fields = ", ".join(f'"{f.name}" {self._type(f.type, types)}' for f in arrow)
            types.append(f"CREATE TYPE raw_{next(self._types)} AS ({fields});")
            return types[-1].split()[2]
        return next(kind for is_one, kind in _SCALARS if is_one(arrow))


def _number(text: str) -> int | float:
    return -0.0 if text == "-0" else int(text)


def plain(value: Any) -> Any:
    """A value as JSON holds it."""
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return [plain(part) for part in value]
        case bytes():
            return "\\x" + value.hex()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case bool() | int() | float() | str() | None:
            return value
    return str(value)


@contextmanager
def database() -> Iterator[Database]:
    """A database of a new server, gone at the end."""
    with running() as server:
        server.sql("CREATE DATABASE dialects TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
        with psycopg.connect(
            host="127.0.0.1", port=server.port, user="postgres", dbname="dialects", autocommit=True, options="-c TimeZone=UTC"
        ) as connection:
            yield Database(connection)
