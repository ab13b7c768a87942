"""Rows into a Trino's memory connector, and answers as plain Python: instants as µs, days as int."""

from __future__ import annotations

import base64
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from services.trino import VERSION, Trino, programs

from helpers.values import float32

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SCALARS: list[tuple[Callable[[pa.DataType], bool], str, str, str]] = [
    (pa.types.is_int8, "tinyint", "bigint", "CAST({} AS tinyint)"),
    (pa.types.is_int16, "smallint", "bigint", "CAST({} AS smallint)"),
    (pa.types.is_int32, "integer", "bigint", "CAST({} AS integer)"),
    (pa.types.is_int64, "bigint", "bigint", "{}"),
    (pa.types.is_float32, "real", "varchar", "CAST({} AS real)"),
    (pa.types.is_float64, "double", "varchar", "CAST({} AS double)"),
    (pa.types.is_boolean, "boolean", "boolean", "{}"),
    (pa.types.is_string, "varchar", "varchar", "{}"),
    (pa.types.is_binary, "varbinary", "varchar", "from_hex({})"),
    (pa.types.is_decimal, "decimal(38, 0)", "varchar", "CAST({} AS decimal(38, 0))"),
    (pa.types.is_timestamp, "timestamp(6) with time zone", "bigint", "from_unixtime_nanos({} * 1000)"),
]
"""What a type is in Trino, as what it is sent in JSON, and what makes the one of the other."""


class TrinoTables:
    """Tables of one node."""

    def __init__(self, server: Trino) -> None:
        self._server = server

    def load(self, name: str, rows: pa.Table) -> None:
        """Make the rows a table, in place of one of that name."""
        columns = ", ".join(f"{_quoted(f.name)} {_type(f.type)}" for f in rows.schema)
        self._server.sql(f"DROP TABLE IF EXISTS {name}")
        self._server.sql(f"CREATE TABLE {name} ({columns})")
        # JSON, from a table of its own: as constants in the plan, 400 rows are evaluated for a minute
        lines = ", ".join(f"({_text(json.dumps(list(map(_sent, row.values()))))})" for row in rows.to_pylist())
        self._server.sql("DROP TABLE IF EXISTS _lines")
        self._server.sql("CREATE TABLE _lines (_line varchar)")
        self._server.sql(f"INSERT INTO _lines VALUES {lines}")
        made = ", ".join(_made(f.type, f"_row[{i}]") for i, f in enumerate(rows.schema, start=1))
        sent = f"SELECT CAST(json_parse(_line) AS {_wire(pa.struct(rows.schema))}) FROM _lines"
        self._server.sql(f"INSERT INTO {name} SELECT {made} FROM ({sent}) AS _rows(_row)")

    def keywords(self) -> list[str]:
        """The words of Trino's grammar, as its lexer's class spells them."""
        with zipfile.ZipFile(programs() / "lib" / f"trino-grammar-{VERSION}.jar") as jar:
            lexer = jar.read("io/trino/grammar/sql/SqlBaseLexer.class")
        return sorted({word.decode() for word in re.findall(rb"'([A-Z_]{2,})'", lexer)})

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a SELECT."""
        columns, rows = self._server.sql(sql)
        return [
            {column["name"]: _plain(column["typeSignature"], value) for column, value in zip(columns, row, strict=True)}
            for row in rows
        ]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _scalar(arrow: pa.DataType) -> tuple[str, str, str]:
    return next((kind, wire, made) for is_one, kind, wire, made in _SCALARS if is_one(arrow))


def _type(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"array({_type(arrow.value_type)})"
    if pa.types.is_struct(arrow):
        return f"row({', '.join(f'{_quoted(f.name)} {_type(f.type)}' for f in arrow)})"
    return _scalar(arrow)[0]


def _wire(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"array({_wire(arrow.value_type)})"
    return f"row({', '.join(_wire(f.type) for f in arrow)})" if pa.types.is_struct(arrow) else _scalar(arrow)[1]


def _made(arrow: pa.DataType, sent: str, depth: int = 0) -> str:
    """The value of what was sent."""
    if pa.types.is_list(arrow):
        return f"transform({sent}, _{depth} -> {_made(arrow.value_type, f'_{depth}', depth + 1)})"
    if pa.types.is_struct(arrow):
        parts = ", ".join(_made(f.type, f"{sent}[{i}]", depth) for i, f in enumerate(arrow, start=1))
        return f"IF({sent} IS NULL, NULL, CAST(ROW({parts}) AS {_type(arrow)}))"
    return _scalar(arrow)[2].format(sent)


def _sent(value: Any) -> Any:
    """A value in JSON; a struct is a list of its parts."""
    match value:
        case dict():
            return [_sent(part) for part in value.values()]
        case list():
            return [_sent(item) for item in value]
        case bytes():
            return value.hex()
        case float():
            return repr(value).replace("inf", "Infinity").replace("nan", "NaN")
        case Decimal():
            return f"{value:f}"
        case datetime():
            return (value - _EPOCH) // timedelta(microseconds=1)
    return value


def _plain(kind: dict[str, Any], value: Any) -> Any:
    """A value of Trino's JSON."""
    if value is None:
        return None
    parts = [argument["value"] for argument in kind["arguments"]]
    match kind["rawType"]:
        case "array":
            return [_plain(parts[0], item) for item in value]
        case "row":
            return dict(_fields(parts, value))
        case "varbinary":
            return base64.b64decode(value)
        case "real":
            return float32(float(value))
        case "double":
            return float(value)
        case "decimal":
            return Decimal(value)
        case "date":
            return (date.fromisoformat(value) - _EPOCH.date()).days
        case "timestamp" | "timestamp with time zone":
            since = datetime.fromisoformat(value.removesuffix(" UTC")).replace(tzinfo=timezone.utc) - _EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return value


def _fields(parts: Sequence[dict[str, Any]], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for part, value in zip(parts, values, strict=True):
        yield part["fieldName"]["name"], _plain(part["typeSignature"], value)
