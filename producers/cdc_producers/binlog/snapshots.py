"""Reads rows from the tables: snapshots as events, with their progress, and single rows again.

A snapshot needs no lock: it is one transaction of InnoDB, and a place of the binlog that its rows rank at. Its position is the
epoch, a number that grows with each attempt and, if the primary key is one integer, the last key: the next attempt resumes after
that key, and the binlog has the changes in between. Any other table begins again.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted
from threading import Event
from typing import Any

from pymysql.cursors import SSCursor

from cdc_producers.binlog.catalog import BinlogColumn, BinlogTable
from cdc_producers.binlog.connections import Access, connect, identifier, literal, rows, server_errors
from cdc_producers.binlog.events import BinlogEventWriter, BinlogPosition
from cdc_producers.binlog.marks import SEQUENCE_BITS, Mark
from cdc_producers.binlog.values import NULL, Row
from cdc_producers.metrics import Metrics
from cdc_producers.row_log import CHUNK_ROWS, WHOLE, about, emit_rows, in_chunks
from cdc_producers.source import Emit, Emitted
from cdc_views.errors import CdcViewsError, UnsupportedError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, SnapshotProgress, StreamTarget, shown_nowhere

_KEY_OFFSET = 1 << 62
"""Added to an integer key, so that negative keys are positions, too; keys beyond half of it are not kept."""
_KEYS = range(-(1 << 61), 1 << 61)
_SRID_SIZE = 4
_Printed = Callable[[Any], str]
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS = (
    "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "uuid", "inet4", "inet6", "time", "json",
)  # fmt: skip
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
    "geomcollection",
)  # fmt: skip


@dataclass
class BinlogSnapshots:
    """The snapshots of a run's tables; `stream` is the name of their positions."""

    targets: Mapping[str, StreamTarget]
    tables: Mapping[str, BinlogTable]
    connector: str
    stream: str
    nulls_zero_dates: bool
    log: ProducerLog
    metrics: Metrics
    progress: SnapshotProgress = shown_nowhere

    def wanted(self, marks: Mapping[str, Mark]) -> list[str]:
        """Return the tables that have no whole snapshot of their epoch."""
        found = {name: self._position(name) or Position(0) for name in self.targets}
        return [name for name, (at, nth) in found.items() if (at >> SEQUENCE_BITS, nth) != (marks[name].epoch, WHOLE)]

    def _position(self, name: str) -> Position | None:
        return self.targets[name].lander(self.stream).position()

    def read(self, name: str, snapshot: ConsistentSnapshot, mark: Mark, *, emit: Emit, stop: Event) -> None:
        """Emit a table's rows as of the snapshot, except for rows that are known to have landed; `mark` is the table's."""
        table, position, epoch = self.tables[name], self._position(name), mark.epoch
        if position is not None and position.at >> SEQUENCE_BITS != epoch:
            position = None  # from before the table was emptied
        columns, keys = [column.name for column in table.columns], [c.name for c in self.targets[name].schema.row_key]
        stream = self.stream.removesuffix(":snapshot")
        writer = BinlogEventWriter(self.connector, stream, table.database, table.name, epoch, columns, keys)
        place, at = snapshot.place(mark), snapshot.at(mark, position).at
        if epoch and position is None:
            # rows that the source lost meanwhile must not stay: a TRUNCATE before the epoch begins removes everything
            before = BinlogEventWriter(self.connector, stream, table.database, table.name, epoch - 1)
            last = BinlogPosition(place.gtid, 0, 1 << SEQUENCE_BITS, 0)
            emit(Emitted(name, self.stream, Position(at), before.event("t", last)))
        after = None
        if position is not None and integer_key(table) is not None and position.nth - _KEY_OFFSET in _KEYS:
            after = position.nth - _KEY_OFFSET
        self._tell(name, snapshot, is_rest=after is not None)
        found = self._rows(name, snapshot, writer, after, at=at, place=place)
        count = emit_rows(name, found, table.about_rows, self.metrics, self.progress, emit=emit, stop=stop)
        if count is not None:
            emit(Emitted(name, self.stream, Position(at, WHOLE)))
            self.log.info(f"{name}: snapshot: read all {count:,} rows", table=name, rows=count)

    def _tell(self, name: str, snapshot: ConsistentSnapshot, *, is_rest: bool) -> None:
        table, rest = self.tables[name], ", the rest of one that stopped" if is_rest else ""
        if table.engine.lower() not in ("innodb", "rocksdb"):
            self.log.warning(f"{name}: {table.engine} has no snapshots; the view is right once the log is followed", table=name)
        self.log.info(
            f"{name}: snapshot at GTID {snapshot.gtid}, {about(table.about_rows)}{rest}",
            table=name,
            gtid=snapshot.gtid,
            file=snapshot.file,
            position=snapshot.position,
        )

    def _rows(
        self,
        name: str,
        snapshot: ConsistentSnapshot,
        writer: BinlogEventWriter,
        after: int | None,
        *,
        at: int,
        place: BinlogPosition,
    ) -> Iterator[Emitted]:
        table = self.tables[name]
        key, place = integer_key(table), place._replace(seconds=int(time.time()))
        key_at = writer.columns.index(key) if key else 0
        found = read_rows(snapshot.connection, table, after=after, nulls_zero_dates=self.nulls_zero_dates)
        for number, row in enumerate(found, 1):
            nth = number if key is None else int(row[key_at] or 0) + _KEY_OFFSET
            yield Emitted(name, self.stream, Position(at, nth), writer.event("r", place, after=row))


@dataclass
class ConsistentSnapshot(ABC):
    """The database as of one moment, which `connection` sees; `file`, `position` and `gtid` are for people to read."""

    connection: Any
    file: str
    position: int
    gtid: str

    @abstractmethod
    def place(self, mark: Mark) -> BinlogPosition:
        """Return the place at which the rows of a table with this mark rank: below all changes that they may lack."""

    @abstractmethod
    def at(self, mark: Mark, known: Position | None) -> Position:
        """Return where the positions of this attempt begin: behind `known`, an earlier attempt's last one."""


@contextmanager
def snapshot_connection(access: Access) -> Iterator[Any]:
    """Open a connection for a snapshot's transaction."""
    connection = connect(access)
    try:
        yield connection
    finally:
        with server_errors(access.flavour, "closing"):
            connection.close()


def begin_snapshot(connection: Any) -> None:
    """Let the connection see the database as of now."""
    rows(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", doing="beginning the snapshot")
    rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY", doing="beginning the snapshot")


def integer_key(table: BinlogTable) -> str | None:
    """Return the primary key if it is one integer: then a snapshot that stopped resumes after its last row."""
    types = table.types
    if len(table.primary_key) == 1 and types[table.primary_key[0]] in _INTEGERS:
        return table.primary_key[0]
    return None


def read_rows(connection: Any, table: BinlogTable, *, after: int | None = None, nulls_zero_dates: bool = False) -> Iterator[Row]:
    """Return each row once, as texts in the order of `table.columns`; behind the integer key `after`, in the key's order."""
    key = integer_key(table)
    if key is None:
        yield from selected(connection, table, table.columns, "", nulls_zero_dates=nulls_zero_dates)
        return
    place = [column.name for column in table.columns].index(key)
    name = identifier(key)

    def behind(last: int | None) -> Iterator[Row]:
        condition = "" if last is None else f" WHERE {name} > {last}"
        rest = f"{condition} ORDER BY {name} LIMIT {CHUNK_ROWS}"
        return selected(connection, table, table.columns, rest, nulls_zero_dates=nulls_zero_dates)

    yield from in_chunks(behind, lambda row: int(row[place] or 0), after=after, size=CHUNK_ROWS)


def selected(
    connection: Any, table: BinlogTable, columns: Sequence[BinlogColumn], rest: str, *, nulls_zero_dates: bool = False
) -> Iterator[Row]:
    """Return columns of rows as texts; `rest` follows the FROM clause."""
    encoders = [_encoder(column, nulls_zero_dates=nulls_zero_dates) for column in columns]
    expressions = ", ".join(expression for expression, _ in encoders)
    text = f"SELECT {expressions} FROM {identifier(table.database)}.{identifier(table.name)}{rest}"
    encodes = [encode for _, encode in encoders]
    # SSCursor returns rows as they come, not all at once
    with server_errors(connection.flavour, f"reading {table.full_name}"), connection.cursor(SSCursor) as cursor:
        cursor.execute(text)
        for found in cursor:
            yield [NULL if value is None else encode(value) for encode, value in zip(encodes, found, strict=True)]


def _encoder(column: BinlogColumn, *, nulls_zero_dates: bool) -> tuple[str, _Printed]:
    """Return a column's expression in SELECT, and an encoder of its printed form; the JSON equals that of the log (`values`)."""
    name, kind = identifier(column.name), column.type
    if kind in _INTEGERS or kind == "year":
        return name, lambda value: str(int(value))
    if kind == "decimal":
        return name, _decimal
    if kind in ("float", "double"):
        # a FLOAT is printed with six digits only
        return (f"{name} * 1e0" if kind == "float" else name), lambda value: "-0.0" if value == "-0" else str(value)
    if kind == "bit":
        return f"CAST({name} AS UNSIGNED)", _bits(int(column.full_type.strip("bit()") or 1))
    if kind in ("date", "datetime", "timestamp"):
        zone = "Z" if kind == "timestamp" else ""
        return name, _dated(zone, nulls_zero_dates=nulls_zero_dates)
    if kind in _TEXTS:
        return name, _text
    if kind in _BYTES:
        return name, _blob
    if kind == "vector":  # the driver takes one for a number's text
        return f"HEX({name})", lambda value: f'"0x{value.lower()}"'
    if kind in _GEOMETRIES:
        # as the log has it: the server's functions turn axes, as the reference system says
        return name, lambda value: _blob(value[_SRID_SIZE:])
    raise UnsupportedError(f"column {column.name} is a {kind}, which is not supported", remedy="leave its table out")


def _decimal(value: str) -> str:
    """Remove the zeros that ZEROFILL prints in front: JSON does not allow them."""
    sign, digits = ("-", value[1:]) if value.startswith("-") else ("", value)
    bare = digits.lstrip("0")
    return f"{sign}{bare if bare and not bare.startswith('.') else f'0{bare}'}"


def _bits(count: int) -> _Printed:
    if count == 1:
        return lambda value: "true" if value == "1" else "false"
    return lambda value: f'"0x{int(value).to_bytes((count + 7) // 8, "little").hex()}"'


def _dated(zone: str, *, nulls_zero_dates: bool) -> _Printed:
    def encode(value: str) -> str:
        if "00" in (value[5:7], value[8:10]):
            return NULL if nulls_zero_dates else f'"{value}"'
        return f'"{value}{zone}"'

    return encode


def _text(value: str | bytes) -> str:
    return quoted(value.decode() if isinstance(value, bytes) else value)


def _blob(value: str | bytes) -> str:
    return f'"0x{(value.encode() if isinstance(value, str) else value).hex()}"'


def reread(connection: Any, table: BinlogTable, key: Mapping[str, str], names: Sequence[str], *, lock: str) -> Mapping[str, str]:
    """Return columns of the row with this key as JSON texts, as they are now; nothing if the row is gone.

    A newer value does no harm, because an event of its own follows. An older value would: a server sends a transaction before
    others see it. The transaction keeps its locks until then, so this reads with `lock`, the flavour's clause; or without one,
    if somebody else holds the row's lock for too long or this user may not lock.
    """
    wanted = [column for column in table.columns if column.name in set(names)]
    if not wanted:
        return {}
    where = " AND ".join(f"{identifier(name)} = {key_literal(text)}" for name, text in key.items())
    try:
        return _found(connection, table, wanted, f"{where} LIMIT 1 {lock}")
    except CdcViewsError:
        return _found(connection, table, wanted, f"{where} LIMIT 1")


def _found(connection: Any, table: BinlogTable, wanted: Sequence[BinlogColumn], where: str) -> Mapping[str, str]:
    for row in selected(connection, table, wanted, f" WHERE {where}"):
        return {column.name: text for column, text in zip(wanted, row, strict=True) if text is not None}
    return {}


def key_literal(text: str) -> str:
    """Return a value as an SQL literal; `text` is its JSON, as events have it."""
    value = json.loads(text)
    if not isinstance(value, str):
        return text
    return literal(bytes.fromhex(value[2:]) if value.startswith("0x") else value.removesuffix("Z"))
