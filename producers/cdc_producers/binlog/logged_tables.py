"""The tables of row events, by their numbers in the log; their rows as JSON texts, one for each column."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Protocol

from cdc_producers.binlog import documents, values
from cdc_producers.binlog.catalog import BinlogColumn
from cdc_producers.binlog.events import BinlogEventWriter
from cdc_producers.binlog.log_events import Event, RowsBody, packed_integer
from cdc_producers.binlog.table_maps import (
    MARIADB_CHARACTER,
    Code,
    LoggedColumn,
    TableName,
    described_columns,
    read_columns,
    read_name,
)
from cdc_producers.binlog.values import BINARY, Encode, Read, Row
from cdc_producers.row_log import completed, warn_of_columns
from cdc_producers.source import LostError
from cdc_views.errors import EngineError, UnsupportedError
from cdc_views.landing.targets import ProducerLog, StreamTarget
from cdc_views.model.types import Kind, LogicalType, Scalar

_INTEGERS = {Code.TINY: "b", Code.SHORT: "h", Code.LONG: "i", Code.LONGLONG: "q"}
_OLD = (Code.OLD_TIMESTAMP, Code.OLD_TIME, Code.OLD_DATETIME)
_UUID_SIZE, _INET_SIZES = 16, (4, 16)
Reread = Callable[[str, Mapping[str, str], Sequence[str]], Mapping[str, str]]
"""Reads columns of a table's row with this key from the source; returns, as JSON texts, those that the source still has."""
_DECLARED_AS = {"uuid": Kind.UUID, "inet4": Kind.INET, "inet6": Kind.INET}


def _kind(declared: str, kind: LogicalType | None) -> Kind | None:
    """Return UUID or INET if a column of bytes is one: the log does not show it, but the server's type or the schema's does."""
    if declared in _DECLARED_AS:
        return _DECLARED_AS[declared]
    # the schema has a column of bytes as text only if it is an address
    return {Kind.UUID: Kind.UUID, Kind.INET: Kind.INET, Kind.TEXT: Kind.INET}.get(kind.kind) if isinstance(kind, Scalar) else None


def _reader(column: LoggedColumn, kind: Kind | None, *, nulls_zero: bool, where: str) -> Read:
    code, details, name = column.code, column.details, f"{where}.{column.name}"
    if code in _INTEGERS:
        letter = _INTEGERS[code]
        return values.number(letter.upper() if column.is_unsigned else letter)
    if code in _OLD:
        remedy = f"ALTER TABLE {where} FORCE, and start once with --snapshot-again"  # the log behind it has the old format still
        raise UnsupportedError(f"{name} has a date-time in the format of version 5.5", remedy=remedy)
    if code in (Code.STRING, Code.VARCHAR, Code.VAR_STRING):
        return _string(column, kind, name)
    if code in (Code.BLOB, Code.BLOB_COMPRESSED, Code.VARCHAR_COMPRESSED):
        return _large(column, name)
    simple: dict[Code, Callable[[], Read]] = {
        Code.FLOAT: lambda: values.number("f"),
        Code.DOUBLE: lambda: values.number("d"),
        Code.INT24: lambda: values.medium(is_unsigned=column.is_unsigned),
        Code.DECIMAL: lambda: values.decimal(*details),
        Code.YEAR: lambda: values.YEAR,
        Code.DATE: lambda: values.date(nulls_zero=nulls_zero),
        Code.TIME: lambda: values.time(*details),
        Code.DATETIME: lambda: values.datetime(*details, nulls_zero=nulls_zero),
        Code.TIMESTAMP: lambda: values.timestamp(*details, nulls_zero=nulls_zero),
        Code.BIT: lambda: values.bits(details[0] + 8 * details[1]),
        Code.ENUM: lambda: values.enum(details[0], column.labels),
        Code.SET: lambda: values.members(details[0], column.labels),
        Code.GEOMETRY: lambda: values.sized(details[0], values.geometry),
        Code.MYSQL_JSON: lambda: values.sized(details[0], documents.text),
        Code.VECTOR: lambda: values.sized(details[0], values.blob),
    }
    return simple[code]()


def _text(column: LoggedColumn, where: str) -> Encode | None:
    return values.text(column.charset, where=where) if column.charset not in ("", BINARY) else None


def _string(column: LoggedColumn, kind: Kind | None, name: str) -> Read:
    (length,) = column.details
    encode = _text(column, name)
    if encode is None and column.code is Code.STRING:
        if kind is Kind.UUID and length == _UUID_SIZE:
            encode = values.uuid_text
        elif kind is Kind.INET and length in _INET_SIZES:
            encode = values.inet_text(length)
        else:
            encode = values.padded(length)
    return values.sized(1 if length < 256 else 2, encode or values.blob)


def _large(column: LoggedColumn, name: str) -> Read:
    (detail,) = column.details
    encode = _text(column, name) or values.blob
    if column.code is Code.BLOB:
        return values.sized(detail, encode)
    width = detail if column.code is Code.BLOB_COMPRESSED else 1 if detail < 256 else 2
    return values.sized(width, lambda content: encode(_uncompressed(content)))


def _uncompressed(content: bytes) -> bytes:
    """Return the value of a COMPRESSED column. Source: MariaDB 11.4, `sql/field_comp.cc`, read as a description."""
    if not content or content[0] == 0:
        return content[1:]
    head = content[0]
    if head >> 4 != 8:
        raise EngineError(f"a compressed column's value begins with {head:#x}, a way that is not known")
    return zlib.decompress(content[1 + (head & 7) :], -zlib.MAX_WBITS if head & 8 else zlib.MAX_WBITS)


_PARTIAL_JSON = 1
"""Of an image after an update: some of its documents are differences."""
_DOCUMENT_WIDTH = _DIFFERENCE_WIDTH = 4
"""The bytes that a document's length takes."""
_Plan = tuple[int, list[tuple[int, int, Read]]]


@dataclass
class LoggedTable:
    """One table as the log has it now, with the log's order of columns; made of an event's `body` and a target's `version`."""

    target: StreamTarget
    name: TableName
    columns: InitVar[list[LoggedColumn]]
    catalog: InitVar[Mapping[str, str]]
    nulls_zero_dates: InitVar[bool]
    body: bytes
    version: object
    names: list[str] = field(init=False)
    _documents: list[int] = field(init=False)
    """The places of columns of binary JSON."""
    _readers: list[Read] = field(init=False)
    _plans: dict[bytes, _Plan] = field(default_factory=dict)
    _writer: BinlogEventWriter | None = None

    def __post_init__(self, columns: list[LoggedColumn], catalog: Mapping[str, str], nulls_zero_dates: bool) -> None:
        self.names = [column.name for column in columns]
        self._documents = [place for place, column in enumerate(columns) if column.code is Code.MYSQL_JSON]
        schema = {column.name: column.type for column in self.target.schema.columns}
        kinds = {name: _kind(catalog.get(name, ""), schema.get(name)) for name in self.names}
        where = self.name.full_name
        self._readers = [_reader(c, kinds[c.name], nulls_zero=nulls_zero_dates, where=where) for c in columns]

    def writer(self, connector: str, stream: str, epoch: int) -> BinlogEventWriter:
        """Return the writer of its events."""
        if self._writer is None or (self._writer.stream, self._writer.epoch) != (stream, epoch):
            keys = [column.name for column in self.target.schema.row_key]
            self._writer = BinlogEventWriter(connector, stream, self.name.database, self.name.table, epoch, self.names, keys)
        return self._writer

    def rows(self, body: RowsBody) -> Iterator[tuple[Row, Row | None]]:
        """Return each row's image, and for an update the image after it."""
        if body.is_partial:
            yield from self._partial_rows(body)
            return
        content, position, end = body.content, 0, len(body.content)
        before = self._plan(body.present)
        after = None if body.after is None else self._plan(body.after)
        while position < end:
            row, position = self._row(before, content, position)
            if after is None:
                yield row, None
            else:
                changed, position = self._row(after, content, position)
                yield row, changed

    def _partial_rows(self, body: RowsBody) -> Iterator[tuple[Row, Row | None]]:
        """Return the images before and after updates, of which some have differences in place of a JSON document."""
        content, position, end = body.content, 0, len(body.content)
        before, after = self._plan(body.present), self._plan(body.after or b"")
        while position < end:
            was: dict[int, bytes] = {}
            row, position = self._row(before, content, position, was)
            options, position = packed_integer(content, position)
            partial: set[int] = set()
            if options & _PARTIAL_JSON:
                size = (len(self._documents) + 7) // 8
                bits, position = int.from_bytes(content[position : position + size], "little"), position + size
                partial = {place for number, place in enumerate(self._documents) if bits >> number & 1}
            readers = [(bit, place, self._difference(place, was) if place in partial else read) for bit, place, read in after[1]]
            changed, position = self._row((after[0], readers), content, position)
            yield row, changed

    def _difference(self, place: int, was: Mapping[int, bytes]) -> Read:
        if place not in was:
            raise LostError(
                f"{self.name.full_name}.{self.names[place]}: the log has a difference of a document that it does not have; "
                "SET GLOBAL binlog_row_value_options = '', and start once with --snapshot-again"
            )

        def encode(content: bytes) -> str:
            return documents.changed_text(was[place], content)

        return values.sized(_DIFFERENCE_WIDTH, encode)

    def _plan(self, present: bytes) -> _Plan:
        """Return the columns of the images: the bytes of their null bits, then each column's bit, place and reader."""
        if present not in self._plans:
            places = [place for place in range(len(self._readers)) if present[place >> 3] >> (place & 7) & 1]
            steps = [(1 << bit, place, self._readers[place]) for bit, place in enumerate(places)]
            self._plans[present] = (len(places) + 7) // 8, steps
        return self._plans[present]

    def _row(self, plan: _Plan, content: bytes, position: int, was: dict[int, bytes] | None = None) -> tuple[Row, int]:
        """Return a row's image and where it ends; `was` gets the bytes of documents, by their places."""
        size, steps = plan
        nulls = int.from_bytes(content[position : position + size], "little")
        position += size
        row: Row = [None] * len(self._readers)
        for bit, place, read in steps:
            if nulls & bit:
                row[place] = values.NULL
            else:
                start = position
                row[place], position = read(content, start)
                if was is not None and place in self._documents:
                    was[place] = content[start + _DOCUMENT_WIDTH : position]
        return row, position


class Describing(Protocol):
    """Describes tables by the catalog, at the place of a log that does not name columns."""

    def __call__(self, table: str) -> Sequence[BinlogColumn]:
        """Return a table's columns; raises `LostError` if the catalog cannot tell."""

    def forget(self, table: str) -> None:
        """Forget a table that the log alters."""


@dataclass
class LoggedTables:
    """The tables that are followed; `targets` are by `database.table` of the source.

    Attributes:
        collations: Character sets by the collations' numbers.
        catalog: Returns a table's columns as they are now; called again when they change.
        reread: Serves updates of the key under a minimal row image.
        described: Returns a table's columns at the place of the log, for logs that do not name them; None: all must.
        character: The types that have a character set in the log.
    """

    targets: Mapping[str, StreamTarget]
    collations: Mapping[int, str]
    catalog: Callable[[str], Sequence[BinlogColumn]]
    reread: Reread
    log: ProducerLog
    nulls_zero_dates: bool = False
    described: Describing | None = None
    character: frozenset[Code] = MARIADB_CHARACTER
    _numbers: dict[int, LoggedTable | None] = field(default_factory=dict)
    _known: dict[str, LoggedTable] = field(default_factory=dict)
    _columns: dict[str, list[str]] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget the numbers: another file of the log has other ones."""
        self._numbers.clear()

    def altered(self, full_name: str) -> None:
        """Forget a table's columns after a statement that may have changed them."""
        self._known.pop(full_name, None)
        if self.described is not None:
            self.described.forget(full_name)

    def note(self, event: Event) -> None:
        """Read a table-map event; if its table is not followed, only the name."""
        name = read_name(event)
        target = self.targets.get(name.full_name)
        if target is None:
            self._numbers[name.number] = None
            return
        body, version = event.body[6:], target.version()
        known = self._known.get(name.full_name)
        if known is None or (known.body, known.version) != (body, version):
            known = self._known[name.full_name] = self._table(name, target, event)
        self._numbers[name.number] = known

    def find(self, number: int) -> LoggedTable | None:
        """Return the table with that number, None if it is not followed."""
        return self._numbers.get(number)

    def completed(self, table: LoggedTable, row: Row) -> Row:
        """As `row_log.completed`."""
        known = dict(zip(table.names, row, strict=True))
        keys = {c.name: text for c in table.target.schema.row_key if (text := known.get(c.name)) is not None}
        return completed(table.names, row, None, lambda missing: self.reread(table.target.name, keys, missing))

    def _table(self, name: TableName, target: StreamTarget, event: Event) -> LoggedTable:
        try:
            columns = read_columns(event, name, self.collations, self.character)
            if not columns and self.described is not None:
                columns = described_columns(event, name, self.described(name.full_name))
        except (ValueError, KeyError, IndexError) as error:
            raise LostError(f"{name.full_name}: the log describes the table in a way that is not known ({error!r})") from error
        if not columns:
            raise LostError(
                f"{name.full_name}: the log does not name the columns (binlog_row_metadata was not FULL when the rows were "
                "written); SET GLOBAL binlog_row_metadata = 'FULL', and start once with --snapshot-again"
            )
        names = [column.name for column in columns]
        before = self._columns.get(target.name, [column.name for column in target.schema.columns])
        replay = f"rows that wait in quarantine land with `cdc-views replay {target.name}`"
        remedy = f", and {replay}. Rows not written since have no value there yet"
        warn_of_columns(self.log, target.name, before, names, remedy=remedy)
        self._columns[target.name] = names
        catalog = {column.name: column.type for column in self.catalog(name.full_name)}
        return LoggedTable(target, name, columns, catalog, self.nulls_zero_dates, event.body[6:], target.version())
