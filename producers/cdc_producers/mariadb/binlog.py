"""MariaDB's binlog events, read from their bytes; `logged_tables` reads the rows' values.

A table-map event describes a table's columns at the time of its rows; the catalog, which may be newer, is never asked for that.
The event has names, character sets and labels if `binlog_row_metadata = FULL`.

Source: MariaDB knowledge base, "Replication Protocol" and "2-Binlog Event Header" ff., and of 11.4 `Table_map_log_event`,
read as a description; checked against 11.4.5.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeVar

from cdc_producers.mariadb.gtids import Gtid
from cdc_producers.mariadb.values import BINARY, text_of
from cdc_views.errors import EngineError

_HEADER = struct.Struct("<IBIIIH")
HEADER_SIZE = _HEADER.size
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, HEARTBEAT, INCIDENT = 2, 4, 15, 16, 19, 27, 26
GTID, START_ENCRYPTION, QUERY_COMPRESSED, XA_PREPARE = 162, 164, 165, 38
WRITES, UPDATES, DELETES = frozenset({23, 30, 166, 169}), frozenset({24, 31, 167, 170}), frozenset({25, 32, 168, 171})
ROWS = WRITES | UPDATES | DELETES
_COMPRESSED_ROWS = frozenset({166, 167, 168, 169, 170, 171})
_WITH_EXTRA = frozenset({30, 31, 32, 169, 170, 171})
PASSED_OVER = frozenset({ROTATE, 3, 5, 13, 14, 28, 29, 160, 161, 163, START_ENCRYPTION})
"""Events without rows: stops, statements' variables, annotations, checkpoints, lists of GTIDs, notes that encryption starts."""
IGNORABLE = 0x80
"""The flag of events that a reader may skip if it does not know them."""
_CHECKSUM_SIZE = 4
_FORMAT_SERVER = 50
_STANDALONE, _GROUP_COMMIT, _PREPARED, _COMPLETED = 1, 2, 64, 128
_ZLIB = 0
_T = TypeVar("_T")


class Code(IntEnum):
    """The types of columns; `STRING` is also the log's code of ENUM and SET, which its details distinguish."""

    TINY, SHORT, LONG, FLOAT, DOUBLE = 1, 2, 3, 4, 5
    OLD_TIMESTAMP, LONGLONG, INT24, DATE, OLD_TIME, OLD_DATETIME, YEAR = 7, 8, 9, 10, 11, 12, 13
    VARCHAR, BIT, TIMESTAMP, DATETIME, TIME = 15, 16, 17, 18, 19
    BLOB_COMPRESSED, VARCHAR_COMPRESSED, MYSQL_JSON = 140, 141, 245
    DECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = 246, 247, 248, 252, 253, 254, 255


_DETAIL_BYTES = {
    **dict.fromkeys((Code.FLOAT, Code.DOUBLE, Code.BLOB, Code.GEOMETRY, Code.BLOB_COMPRESSED, Code.MYSQL_JSON), 1),
    **dict.fromkeys((Code.TIMESTAMP, Code.DATETIME, Code.TIME), 1),
    **dict.fromkeys((Code.VARCHAR, Code.VARCHAR_COMPRESSED, Code.VAR_STRING, Code.STRING, Code.BIT, Code.DECIMAL), 2),
    **dict.fromkeys((Code.ENUM, Code.SET), 2),
}
_NUMERIC = frozenset(
    {Code.TINY, Code.SHORT, Code.INT24, Code.LONG, Code.LONGLONG, Code.FLOAT, Code.DOUBLE, Code.DECIMAL, Code.YEAR}
)
_LABELLED = frozenset({Code.ENUM, Code.SET})
_CHARACTER = frozenset(
    {Code.STRING, Code.VAR_STRING, Code.VARCHAR, Code.BLOB, Code.BLOB_COMPRESSED, Code.VARCHAR_COMPRESSED, Code.GEOMETRY}
)
"""Types with a character set in the log; a geometry has one, too (`binary`), unlike in MySQL."""
_SIGNEDNESS, _DEFAULT_CHARSET, _CHARSETS, _NAMES, _SET_LABELS, _ENUM_LABELS = 1, 2, 3, 4, 5, 6
_LABEL_DEFAULT_CHARSET, _LABEL_CHARSETS = 10, 11


class Event(NamedTuple):
    """One event: facts of its header, and its body without header and checksum."""

    kind: int
    timestamp: int
    server: int
    end: int
    body: bytes
    flags: int = 0


def read_event(packet: bytes, *, has_checksum: bool) -> Event:
    """Return the event of a packet's bytes; raises `EngineError` if they are incomplete or damaged."""
    if len(packet) < HEADER_SIZE:
        raise EngineError("the binlog sent a part of an event")
    timestamp, kind, server, size, end, flags = _HEADER.unpack_from(packet)
    if size != len(packet):
        raise EngineError(f"an event before {end} of the binlog has {len(packet)} bytes where {size} were announced")
    if not has_checksum:
        return Event(kind, timestamp, server, end, packet[HEADER_SIZE:], flags)
    (sum_,) = struct.unpack_from("<I", packet, size - _CHECKSUM_SIZE)
    if zlib.crc32(memoryview(packet)[:-_CHECKSUM_SIZE]) != sum_:
        raise EngineError(f"the event that ends at {end} of the binlog is damaged: its checksum is another one")
    return Event(kind, timestamp, server, end, packet[HEADER_SIZE:-_CHECKSUM_SIZE], flags)


@dataclass(frozen=True, slots=True)
class GtidBegin:
    """A transaction begins; if `is_single`, it is one statement and has no end of its own. `prepared` names an XA transaction."""

    gtid: Gtid
    is_single: bool
    prepared: bytes = b""
    completed: bytes = b""


def read_begin(event: Event) -> GtidBegin:
    """Read a GTID event."""
    sequence, domain, flags = struct.unpack_from("<QIB", event.body)
    name = b""
    if flags & (_PREPARED | _COMPLETED):
        position = 13 + (8 if flags & _GROUP_COMMIT else 0)
        first, second = event.body[position + 4], event.body[position + 5]
        name = event.body[position : position + 6 + first + second]
    return GtidBegin(
        Gtid(domain, event.server, sequence),
        bool(flags & _STANDALONE),
        prepared=name if flags & _PREPARED else b"",
        completed=name if flags & _COMPLETED else b"",
    )


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that the log has as text: DDL, and the ends of transactions without an XID."""

    database: str
    text: str


def read_statement(event: Event) -> Statement:
    """Read a query event, compressed or not."""
    _, _, database_size, _, status_size = struct.unpack_from("<IIBHH", event.body)
    position = 13 + status_size
    database = event.body[position : position + database_size].decode(errors="replace")
    text = event.body[position + database_size + 1 :]
    if event.kind == QUERY_COMPRESSED:
        text = decompressed(text)
    return Statement(database, text.decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class RowsBody:
    """One table's rows: bitmaps of the columns in each image, and the images' bytes; `after` is None with one image a row."""

    table: int
    present: bytes
    after: bytes | None
    content: bytes


def read_rows(event: Event) -> RowsBody:
    """Read a rows event, compressed or not, up to its rows."""
    body = event.body
    table = int.from_bytes(body[:6], "little")
    position = 8
    if event.kind in _WITH_EXTRA:
        position += int.from_bytes(body[8:10], "little")
    width, position = packed_integer(body, position)
    size = (width + 7) // 8
    present, position = body[position : position + size], position + size
    after = None
    if event.kind in UPDATES:
        after, position = body[position : position + size], position + size
    content = body[position:]
    return RowsBody(table, present, after, decompressed(content) if event.kind in _COMPRESSED_ROWS else content)


def has_checksums(packet: bytes) -> bool:
    """Return whether the events after this format description end with a checksum; it always has room for one itself."""
    return packet[-_CHECKSUM_SIZE - 1] == 1


def begins_with_the_server(event: Event) -> bool:
    """Return whether a format description shows that the server was started with this file."""
    return int.from_bytes(event.body[2 + _FORMAT_SERVER : 6 + _FORMAT_SERVER], "little") != 0


def packed_integer(content: bytes, position: int) -> tuple[int, int]:
    """Return the integer of one to nine bytes at this position, and where it ends."""
    first = content[position]
    if first < 251:
        return first, position + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(content[position + 1 : position + 1 + size], "little"), position + 1 + size


def decompressed(content: bytes) -> bytes:
    """Decompress what `log_bin_compress` compressed. Source: MariaDB 11.4, `binlog_buf_uncompress`, read as a description."""
    head = content[0]
    if head & 0x80 == 0 or head >> 4 & 7 != _ZLIB:
        raise EngineError(f"the binlog compresses in a way that is not known ({head:#x})")
    return zlib.decompress(content[1 + (head & 7) :])


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    """A column in the log; `code` is the real type, also of ENUM and SET.

    `details` are the bytes of details, up to two, with a STRING's length first. `charset` is `binary` for bytes, and empty for
    types without characters.
    """

    name: str
    code: Code
    details: tuple[int, ...] = ()
    is_unsigned: bool = False
    charset: str = ""
    labels: tuple[str, ...] = ()


class TableName(NamedTuple):
    """The number and name of a table-map event's table: enough to skip the event."""

    number: int
    database: str
    table: str
    end: int

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"


def read_name(event: Event) -> TableName:
    """Return a table-map event's number and names, and where they end."""
    body = event.body
    number, position = int.from_bytes(body[:6], "little"), 8
    end = position + 1 + body[position]
    database = body[position + 1 : end].decode()
    position = end + 1
    end = position + 1 + body[position]
    return TableName(number, database, body[position + 1 : end].decode(), end + 1)


def read_columns(event: Event, name: TableName, collations: Mapping[int, str]) -> list[LoggedColumn]:
    """Return a table-map event's columns, if it names them; raises ValueError or KeyError for an unknown type or collation."""
    body = event.body
    width, position = packed_integer(body, name.end)
    codes = [Code(code) for code in body[position : position + width]]
    size, position = packed_integer(body, position + width)
    types = _types(codes, body[position : position + size])
    facts = dict(_each(body[position + size + (width + 7) // 8 :], _fact))
    names = [text_of(one, "utf8") for one in _each(facts.get(_NAMES, b""), _sized)]
    if len(names) != width:
        return []
    unsigned = [bool(byte >> bit & 1) for byte in facts.get(_SIGNEDNESS, b"") for bit in range(7, -1, -1)]
    charsets = _charsets(types, facts, collations)
    label_lists = {
        code: list(_each(facts.get(fact, b""), _labels)) for code, fact in ((Code.SET, _SET_LABELS), (Code.ENUM, _ENUM_LABELS))
    }
    columns = []
    for column, (code, details), charset in zip(names, types, charsets, strict=True):
        labels: tuple[str, ...] = ()
        if code in _LABELLED:
            labels_in = "latin1" if charset in ("", BINARY) else charset
            labels = tuple(text_of(label, labels_in) for label in label_lists[code].pop(0))
        is_unsigned = code in _NUMERIC and bool(unsigned) and unsigned.pop(0)
        columns.append(LoggedColumn(column, code, details, is_unsigned, charset, labels))
    return columns


def _types(codes: list[Code], details: bytes) -> list[tuple[Code, tuple[int, ...]]]:
    found: list[tuple[Code, tuple[int, ...]]] = []
    position = 0
    for code in codes:
        size = _DETAIL_BYTES.get(code, 0)
        pair = tuple(details[position : position + size])
        position += size
        if code is Code.STRING:
            found.append(_string(*pair))
        elif code in (Code.VARCHAR, Code.VARCHAR_COMPRESSED, Code.VAR_STRING):
            found.append((code, (pair[0] | pair[1] << 8,)))
        else:
            found.append((code, pair))
    return found


def _string(first: int, second: int) -> tuple[Code, tuple[int, ...]]:
    """Distinguish CHAR, BINARY, ENUM and SET, which share a code: the first byte has the type and two bits of a longer length."""
    if first & 0x30 != 0x30:
        return Code(first | 0x30), (second | ((first & 0x30) ^ 0x30) << 4,)
    return Code(first), (second,)


def _each(content: bytes, read: Callable[[bytes, int], tuple[_T, int]]) -> Iterator[_T]:
    position = 0
    while position < len(content):
        one, position = read(content, position)
        yield one


def _sized(content: bytes, position: int) -> tuple[bytes, int]:
    size, start = packed_integer(content, position)
    return content[start : start + size], start + size


def _fact(content: bytes, position: int) -> tuple[tuple[int, bytes], int]:
    found, end = _sized(content, position + 1)
    return (content[position], found), end


def _labels(content: bytes, position: int) -> tuple[list[bytes], int]:
    count, position = packed_integer(content, position)
    found = []
    for _ in range(count):
        label, position = _sized(content, position)
        found.append(label)
    return found, position


def _charsets(types: list[tuple[Code, tuple[int, ...]]], facts: Mapping[int, bytes], collations: Mapping[int, str]) -> list[str]:
    found = [""] * len(types)
    for family, default, listed in (
        (_CHARACTER, _DEFAULT_CHARSET, _CHARSETS),
        (_LABELLED, _LABEL_DEFAULT_CHARSET, _LABEL_CHARSETS),
    ):
        places = [place for place, (code, _) in enumerate(types) if code in family]
        if listed in facts:
            numbers = list(_each(facts[listed], packed_integer))
        else:
            usual, *others = list(_each(facts.get(default, b""), packed_integer)) or [0]
            exceptions = dict(zip(others[::2], others[1::2], strict=True))
            numbers = [exceptions.get(place, usual) for place in range(len(places))]
        for place, number in zip(places, numbers, strict=True):
            found[place] = collations[number] if number else ""
    return found
