"""Events of the binlog of MariaDB and MySQL, read from their bytes; `logged_tables` reads the rows' values.

Source: MariaDB knowledge base, "Replication Protocol" and "2-Binlog Event Header" ff.; MySQL 9.7's `libs/mysql/binlog/event`,
read as a description; checked against MariaDB 11.4.5, MySQL 9.7.4 and 5.6.14.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from cdc_views.errors import EngineError

_HEADER = struct.Struct("<IBIIIH")
HEADER_SIZE = _HEADER.size
QUERY, ROTATE, FORMAT, XID, TABLE_MAP, INCIDENT, HEARTBEAT = 2, 4, 15, 16, 19, 26, 27
START_ENCRYPTION, QUERY_COMPRESSED, XA_PREPARE = 164, 165, 38
MARIADB_GTID = 162
MYSQL_GTID, ANONYMOUS, PREVIOUS_GTIDS, PARTIAL_UPDATE, PAYLOAD, TAGGED_GTID = 33, 34, 35, 39, 40, 42
GTIDS = frozenset({MARIADB_GTID, MYSQL_GTID, ANONYMOUS, TAGGED_GTID})
HEARTBEATS = frozenset({HEARTBEAT, 41})
WRITES, DELETES = frozenset({23, 30, 166, 169}), frozenset({25, 32, 168, 171})
UPDATES = frozenset({24, 31, PARTIAL_UPDATE, 167, 170})
ROWS = WRITES | UPDATES | DELETES
_COMPRESSED_ROWS = frozenset({166, 167, 168, 169, 170, 171})
_WITH_EXTRA = frozenset({30, 31, 32, PARTIAL_UPDATE, 169, 170, 171})
PASSED_OVER = frozenset({ROTATE, 3, 5, 13, 14, 28, 29, PREVIOUS_GTIDS, 36, 37, 160, 161, 163, START_ENCRYPTION})
"""Events without rows: stops, statements' variables, annotations, checkpoints, lists of GTIDs, notes that encryption starts,
and what group replication notes."""
IGNORABLE = 0x80
"""The flag of events that a reader may skip if it does not know them."""
_CHECKSUM_SIZE = 4
_FORMAT_SERVER = 50
_ZLIB = 0


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
    """One table's rows: bitmaps of the columns in each image, and the images' bytes; `after` is None with one image a row.

    `is_partial`: an image after an update may have differences of JSON documents in place of documents (MySQL).
    """

    table: int
    present: bytes
    after: bytes | None
    content: bytes
    is_partial: bool = False


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
    content = decompressed(content) if event.kind in _COMPRESSED_ROWS else content
    return RowsBody(table, present, after, content, is_partial=event.kind == PARTIAL_UPDATE)


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


_PAYLOAD_END, _PAYLOAD_SIZE, _PAYLOAD_TYPE, _PAYLOAD_PLAIN_SIZE = range(4)
_ZSTD, _NOT_COMPRESSED = 0, 255


def payload(event: Event) -> Iterator[Event]:
    """Yield the events of a compressed transaction (MySQL's `binlog_transaction_compression`), without unpacking all at once.

    Source: MySQL 9.7, `Transaction_payload_event`, read as a description.
    """
    body, position, facts = event.body, 0, {}
    while True:
        field, position = packed_integer(body, position)
        if field == _PAYLOAD_END:
            break
        size, position = packed_integer(body, position)
        facts[field], _ = packed_integer(body, position)
        position += size
    content, kind = pa.py_buffer(body)[position:], facts.get(_PAYLOAD_TYPE, _ZSTD)
    if kind not in (_ZSTD, _NOT_COMPRESSED):
        raise EngineError(f"the binlog compresses transactions in a way that is not known ({kind})")
    plain = pa.BufferReader(content)
    with pa.CompressedInputStream(plain, "zstd") if kind == _ZSTD else plain as unpacked:
        while head := unpacked.read(HEADER_SIZE):
            rest = unpacked.read(_HEADER.unpack(head)[3] - HEADER_SIZE)
            yield read_event(head + rest, has_checksum=False)._replace(end=event.end)
