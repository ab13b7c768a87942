"""What a snapshot asks for: the token ring in ascending ranges, a SELECT of each, and how far it has come as a landed position.

A position is the token of a partition, which reading it that was, and which of its events. A partition that is read
again (its reading stopped half way) gets positions above all of the earlier reading: rows may have come or gone
meanwhile, so the n-th event of the one is not the n-th of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from cdc_producers.cassandra.node_schema import quoted
from cdc_views.landing import Position
from cdc_views.model.schema import Column, Role, TableSchema

RawRow = tuple[bytes | None, ...]
"""A row as the protocol carries it: each column serialized, None where null."""
_NO_ELEMENT = b"\xff\xff\xff\xff"
FIRST_TOKEN, LAST_TOKEN = -(1 << 63), (1 << 63) - 1
"""Murmur3's tokens; no partition has the first."""
WHOLE = Position((1 << 63) - 1, (1 << 63) - 1)
"""The position of a snapshot that has read everything."""
_ORDINAL_BITS = 40
_READING_BITS = 22


class TokenRange(NamedTuple):
    """Partitions whose token is above `after`, up to `through` itself."""

    after: int
    through: int


class RingPosition(NamedTuple):
    """How far a snapshot has come: the token, which reading of it, and the event's number in that reading."""

    token: int
    reading: int = 0
    ordinal: int = 0

    @classmethod
    def of(cls, position: Position) -> RingPosition:
        """Return the place that a position records."""
        above = position.at << 1 | position.nth >> (_ORDINAL_BITS + _READING_BITS)
        reading = position.nth >> _ORDINAL_BITS & ((1 << _READING_BITS) - 1)
        return cls(above + FIRST_TOKEN, reading, position.nth & ((1 << _ORDINAL_BITS) - 1))

    @property
    def position(self) -> Position:
        """The place as the two numbers that a commit records; ascending as places do."""
        above = self.token - FIRST_TOKEN
        # a token has 64 bits, a number of a commit 63: the last bit leads the second one
        nth = (above & 1) << (_ORDINAL_BITS + _READING_BITS) | self.reading << _ORDINAL_BITS | self.ordinal
        return Position(above >> 1, nth)


def whole_ring() -> list[TokenRange]:
    """Return every token."""
    return [TokenRange(FIRST_TOKEN, LAST_TOKEN)]


def primary_ranges(owners: Sequence[tuple[int, str]], node: str) -> list[TokenRange]:
    """Return the ranges whose first replica is `node`, ascending; `owners` are each token of the ring and whose it is."""
    ring = sorted(owners)
    if not ring:
        return whole_ring()
    ranges = [TokenRange(before, token) for (before, _), (token, owner) in pairwise(ring) if owner == node]
    if ring[0][1] == node:  # its range goes around the end
        ranges = [TokenRange(FIRST_TOKEN, ring[0][0]), *ranges, TokenRange(ring[-1][0], LAST_TOKEN)]
    return [found for found in ranges if found.after < found.through]


def split(ranges: Iterable[TokenRange], parts: int) -> Iterator[TokenRange]:
    """Cut ranges so that the whole ring would be about `parts` of them."""
    size = (1 << 64) // max(parts, 1)
    for after, through in ranges:
        while through - after > size:
            yield TokenRange(after, after + size)
            after += size
        yield TokenRange(after, through)


def remaining(ranges: Iterable[TokenRange], place: RingPosition | None) -> list[TokenRange]:
    """Return what is left to read, the partition of `place` itself included."""
    if place is None:
        return list(ranges)
    after = max(place.token - 1, FIRST_TOKEN)
    return [TokenRange(max(found.after, after), found.through) for found in ranges if found.through > after]


@dataclass(frozen=True, slots=True)
class Selected:
    """Where a column's value is in a row; `written` and `ttl` follow it where the server has them (`has_times`)."""

    column: Column
    place: int
    has_times: bool

    @property
    def written(self) -> int:
        """Where its write time is, or that of each element."""
        return self.place + 1

    @property
    def ttl(self) -> int:
        """Where the seconds left are, or those of each element."""
        return self.place + 2


@dataclass(frozen=True, slots=True)
class Selection:
    """What is selected of one table.

    Grain: one row per row of the table, and one per partition that has static columns only; column 0 is the token,
    column 1 the coordinator's clock (ms), then the keys, then the cells.
    """

    table: TableSchema
    keys: tuple[Column, ...]
    statics: tuple[Selected, ...]
    regulars: tuple[Selected, ...]
    select: str
    token: str

    @classmethod
    def of(cls, table: TableSchema, *, tells_elements: bool) -> Selection:
        """Select everything; `tells_elements`: the server has write times of the elements of collections (5.0)."""
        keys = table.row_key
        token = f"token({', '.join(quoted(column.name) for column in table.partition)})"
        parts = [token, "toUnixTimestamp(now())", *(quoted(column.name) for column in keys)]
        chosen: dict[Role, list[Selected]] = {Role.STATIC: [], Role.REGULAR: []}
        for column in (*table.statics, *table.regulars):
            has_times = tells_elements or not column.type.is_multicell
            chosen[column.role].append(Selected(column, len(parts), has_times))
            name = quoted(column.name)
            parts += [name, f"WRITETIME({name})", f"TTL({name})"] if has_times else [name]
        select = f"SELECT {', '.join(parts)} FROM {quoted(table.keyspace, table.name)}"
        return cls(table, keys, tuple(chosen[Role.STATIC]), tuple(chosen[Role.REGULAR]), select, token)

    def over(self, tokens: TokenRange) -> str:
        """Return the text for a range."""
        return f"{self.select} WHERE {self.token} > {tokens.after} AND {self.token} <= {tokens.through}"

    def has_expiring(self, rows: Sequence[RawRow]) -> bool:
        """Whether any cell of these rows expires."""
        return any(
            _is_expiring(row[found.ttl], is_multicell=found.column.type.is_multicell)
            for found in (*self.statics, *self.regulars)
            if found.has_times
            for row in rows
        )


def _is_expiring(ttl: bytes | None, *, is_multicell: bool) -> bool:
    if ttl is None or not is_multicell:
        return ttl is not None
    return ttl[4:] != _NO_ELEMENT * ((len(ttl) - 4) // 4)
