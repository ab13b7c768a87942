"""Rows of a Cassandra snapshot, without a server."""

from __future__ import annotations

import struct

from cdc_producers.cassandra.snapshot_query import RawRow

from cdc_views.model.schema import TableSchema
from cdc_views.schemas.cql.reader import read_cql

NOW = 1_790_000_000

DDL = """CREATE TYPE ks.u (x int, y text);
CREATE TABLE ks.t (k int, c int, st int static, v text, l list<text>, m map<text, int>, u u, PRIMARY KEY (k, c));"""


def table() -> TableSchema:
    return read_cql(DDL).table("ks.t")


def several(*parts: bytes | None, counted: bool = True) -> bytes:
    """A collection as the protocol carries it."""
    sized = b"".join(struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part for part in parts)
    return (struct.pack(">i", len(parts)) if counted else b"") + sized


def number(value: int, width: int = 8) -> bytes:
    return value.to_bytes(width, "big", signed=True)


def a_row(**cells: tuple[bytes | None, bytes | None, bytes | None]) -> RawRow:
    """A row of partition 1, clustering 2; each cell is its value, write time and seconds left."""
    values = [part for name in ("st", "v", "l", "m", "u") for part in cells.get(name, (None, None, None))]
    return (number(5), number(NOW * 1000), number(1, 4), number(2, 4), *values)
