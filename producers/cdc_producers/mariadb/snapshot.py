"""Reading tables as they were at one GTID, without a lock: one transaction of InnoDB's, and the binlog's place then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted
from typing import Any

from cdc_producers.mariadb.catalog import MariaDbColumn, MariaDbTable
from cdc_producers.mariadb.connections import Access, connect, fetched, identifier, literal, mariadb_errors, rows
from cdc_producers.mariadb.gtids import Gtid, read_gtids
from cdc_producers.mariadb.rowreading import Row
from cdc_producers.mariadb.values import NULL
from cdc_views.errors import EngineError, UnsupportedError

CHUNK_ROWS = 20_000
Encode = Callable[[Any], str]
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "uuid", "inet4", "inet6", "time")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
)  # fmt: skip


@dataclass
class ConsistentSnapshot:
    """The database as of one place of the binlog; `connection` sees it so."""

    connection: Any
    file: str
    position: int
    gtid: Gtid


@contextmanager
def reading(access: Access, domain: int) -> Iterator[ConsistentSnapshot]:
    """A connection that sees the database as of one moment, and the domain's last GTID then."""
    connection = connect(access)
    try:
        rows(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", doing="beginning the snapshot")
        rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", doing="beginning the snapshot")
        status = rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'", doing="asking where the snapshot is")
        found = {str(name).lower(): str(value) for name, value in status}
        file, position = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "")
        if not file or not position.isdecimal():
            raise EngineError("the server does not say where in its binlog the snapshot is (binlog_snapshot_file)")
        asked = f"SELECT BINLOG_GTID_POS({literal(file)}, {position})"
        ((text,),) = rows(connection, asked, doing="asking for the snapshot's GTID")
        if text is None:
            raise EngineError(f"the server does not know the GTID at {file}:{position}")
        yield ConsistentSnapshot(connection, file, int(position), read_gtids(str(text)).get(domain, Gtid(domain, 0, 0)))
    finally:
        with mariadb_errors("closing"):
            connection.close()


def integer_key(table: MariaDbTable) -> str | None:
    """Return the primary key where it is one integer: then a snapshot that stopped goes on after its last row."""
    types = table.types
    if len(table.primary_key) == 1 and types[table.primary_key[0]] in _INTEGERS:
        return table.primary_key[0]
    return None


def read_rows(
    connection: Any,
    table: MariaDbTable,
    *,
    after: int | None = None,
    nulls_zero_dates: bool = False,
    chunk_rows: int = CHUNK_ROWS,
) -> Iterator[Row]:
    """Return each row once, texts as in `table.columns`; by an integer key in its order, from `after` on."""
    key = integer_key(table)
    if key is None:
        yield from selected(connection, table, table.columns, "", nulls_zero_dates=nulls_zero_dates)
        return
    place = [column.name for column in table.columns].index(key)
    name, last = identifier(key), after
    while True:
        condition = "" if last is None else f" WHERE {name} > {last}"
        rest = f"{condition} ORDER BY {name} LIMIT {chunk_rows}"
        count = 0
        for row in selected(connection, table, table.columns, rest, nulls_zero_dates=nulls_zero_dates):
            count, last = count + 1, int(row[place] or 0)
            yield row
        if count < chunk_rows:
            return


def selected(
    connection: Any, table: MariaDbTable, columns: Sequence[MariaDbColumn], rest: str, *, nulls_zero_dates: bool = False
) -> Iterator[Row]:
    """Return some columns of rows, texts in their order; `rest` is what follows FROM."""
    encoders = [_encoder(column, nulls_zero_dates=nulls_zero_dates) for column in columns]
    expressions = ", ".join(expression for expression, _ in encoders)
    text = f"SELECT {expressions} FROM {identifier(table.database)}.{identifier(table.name)}{rest}"
    encodes = [encode for _, encode in encoders]
    for found in fetched(connection, text, doing=f"reading {table.full_name}"):
        yield [NULL if value is None else encode(value) for encode, value in zip(encodes, found, strict=True)]


def _encoder(column: MariaDbColumn, *, nulls_zero_dates: bool) -> tuple[str, Encode]:
    """How a column is selected, and its printed form as JSON, as `values` has it from the log."""
    name, kind = identifier(column.name), column.type
    if kind in _INTEGERS or kind == "year":
        return name, lambda value: str(int(value))
    if kind == "decimal":
        return name, _decimal
    if kind in ("float", "double"):
        # a FLOAT is printed with six digits only
        return (f"CAST({name} AS DOUBLE)" if kind == "float" else name), lambda value: "-0.0" if value == "-0" else str(value)
    if kind == "bit":
        return f"CAST({name} AS UNSIGNED)", _bits(int(column.full_type.strip("bit()") or 1))
    if kind in ("date", "datetime", "timestamp"):
        zone = "Z" if kind == "timestamp" else ""
        return name, _dated(zone, nulls_zero_dates=nulls_zero_dates)
    if kind in _TEXTS:
        return name, _text
    if kind in _BYTES:
        return name, _blob
    if kind in _GEOMETRIES:
        return f"ST_AsWKB({name})", _blob
    raise UnsupportedError(f"column {column.name} is a {kind}, which is not supported", remedy="leave its table out")


def _decimal(value: str) -> str:
    """ZEROFILL prints zeros in front, which JSON has not."""
    sign, digits = ("-", value[1:]) if value.startswith("-") else ("", value)
    bare = digits.lstrip("0")
    return f"{sign}{bare if bare and not bare.startswith('.') else f'0{bare}'}"


def _bits(count: int) -> Encode:
    if count == 1:
        return lambda value: "true" if value == "1" else "false"
    return lambda value: f'"0x{int(value).to_bytes((count + 7) // 8, "little").hex()}"'


def _dated(zone: str, *, nulls_zero_dates: bool) -> Encode:
    def encode(value: str) -> str:
        is_zero = value[5:7] == "00" or value[8:10] == "00"
        if is_zero:
            return NULL if nulls_zero_dates else f'"{value}"'
        return f'"{value}{zone}"'

    return encode


def _text(value: str | bytes) -> str:
    return quoted(value.decode() if isinstance(value, bytes) else value)


def _blob(value: str | bytes) -> str:
    return f'"0x{(value.encode() if isinstance(value, str) else value).hex()}"'
