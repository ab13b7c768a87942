"""Binlog events of MariaDB, read from their bytes; the rows' values are read by `logged_tables`.

Source: MariaDB knowledge base, "Replication Protocol" and "2-Binlog Event Header" ff.; checked against 11.4.5.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from cdc_producers.mariadb.gtids import Gtid
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
"""Events without rows: stops, variables of statements, annotations, checkpoints, lists of GTIDs, notes that encryption starts."""
IGNORABLE = 0x80
"""The flag of events that a reader which does not know them may leave out."""
_CHECKSUM_SIZE = 4
_FORMAT_SERVER = 50
_STANDALONE, _GROUP_COMMIT, _PREPARED, _COMPLETED = 1, 2, 64, 128
_ZLIB = 0


class Event(NamedTuple):
    """One event: its header's facts, and its body without header and checksum."""

    kind: int
    timestamp: int
    server: int
    end: int
    body: bytes
    flags: int = 0


def read_event(packet: bytes, *, has_checksum: bool) -> Event:
    """Return the event of a packet's bytes; raises `EngineError` where its checksum says that it is damaged."""
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
    """A transaction begins. `is_single`: it is one statement, and has no end of its own; `prepared` names an XA one."""

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
    """The rows of one table: which columns each image has, as bitmaps, and the images' bytes.

    `after` is None where there is one image a row.
    """

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
    """Return whether the events after this format description end with a checksum. It always has room for one itself."""
    return packet[-_CHECKSUM_SIZE - 1] == 1


def begins_with_the_server(event: Event) -> bool:
    """Return whether a format description says that the server was started with this file."""
    return int.from_bytes(event.body[2 + _FORMAT_SERVER : 6 + _FORMAT_SERVER], "little") != 0


def packed_integer(content: bytes, position: int) -> tuple[int, int]:
    """Return the integer of one to nine bytes that begins here, and where it ends."""
    first = content[position]
    if first < 251:
        return first, position + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(content[position + 1 : position + 1 + size], "little"), position + 1 + size


def decompressed(content: bytes) -> bytes:
    """Return what `log_bin_compress` compressed. Source: MariaDB 11.4, `binlog_buf_uncompress`, read as a description."""
    head = content[0]
    if head & 0x80 == 0 or head >> 4 & 7 != _ZLIB:
        raise EngineError(f"the binlog compresses in a way that is not known ({head:#x})")
    return zlib.decompress(content[1 + (head & 7) :])
