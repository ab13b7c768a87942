"""A snapshot's queries: the token ring in ascending ranges, a SELECT for each, and the progress as a position that lands.

A position is a partition's token, the number of the reading, and the event's number in it. A partition that was half read is
read again, with positions above the earlier reading's: rows may have come or gone, so the n-th events can differ.
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
"""A row as in the protocol: each column serialized, None for null."""
_NO_ELEMENT = b"\xff\xff\xff\xff"
FIRST_TOKEN, LAST_TOKEN = -(1 << 63), (1 << 63) - 1
"""Murmur3's tokens; no partition has the first."""
WHOLE = Position((1 << 63) - 1, (1 << 63) - 1)
"""The position of a complete snapshot."""
_ORDINAL_BITS = 40
_READING_BITS = 22


class TokenRange(NamedTuple):
    """Partitions whose token is above `after` and at most `through`."""

    after: int
    through: int


class RingPosition(NamedTuple):
    """A snapshot's progress: the token, the number of its reading, and the event's number in that reading."""

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
        """The place as the two numbers of a commit, which ascend with places."""
        above = self.token - FIRST_TOKEN
        # a token has 64 bits, a commit's number 63: the token's last bit leads the second number
        nth = (above & 1) << (_ORDINAL_BITS + _READING_BITS) | self.reading << _ORDINAL_BITS | self.ordinal
        return Position(above >> 1, nth)


def whole_ring() -> list[TokenRange]:
    """Return every token."""
    return [TokenRange(FIRST_TOKEN, LAST_TOKEN)]


def primary_ranges(owners: Sequence[tuple[int, str]], node: str) -> list[TokenRange]:
    """Return the ascending ranges whose first replica is `node`; `owners` has each token of the ring and its node."""
    ring = sorted(owners)
    if not ring:
        return whole_ring()
    ranges = [TokenRange(before, token) for (before, _), (token, owner) in pairwise(ring) if owner == node]
    if ring[0][1] == node:  # its range goes around the ring's end
        ranges = [TokenRange(FIRST_TOKEN, ring[0][0]), *ranges, TokenRange(ring[-1][0], LAST_TOKEN)]
    return [found for found in ranges if found.after < found.through]


def split(ranges: Iterable[TokenRange], parts: int) -> Iterator[TokenRange]:
    """Cut ranges so that the whole ring would have about `parts` of them."""
    size = (1 << 64) // max(parts, 1)
    for after, through in ranges:
        while through - after > size:
            yield TokenRange(after, after + size)
            after += size
        yield TokenRange(after, through)


def remaining(ranges: Iterable[TokenRange], place: RingPosition | None) -> list[TokenRange]:
    """Return the ranges left to read, including the partition of `place`."""
    if place is None:
        return list(ranges)
    after = max(place.token - 1, FIRST_TOKEN)
    return [TokenRange(max(found.after, after), found.through) for found in ranges if found.through > after]


@dataclass(frozen=True, slots=True)
class Selected:
    """Where a column's value is in a row; `written` and `ttl` follow it if the server has them (`has_times`)."""

    column: Column
    place: int
    has_times: bool

    @property
    def written(self) -> int:
        """The place of its write time or of its elements' write times."""
        return self.place + 1

    @property
    def ttl(self) -> int:
        """The place of its seconds left or of its elements' seconds left."""
        return self.place + 2


@dataclass(frozen=True, slots=True)
class Selection:
    """The SELECT of one table.

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
        """Select everything; `tells_elements`: the server returns write times of collection elements (5.0)."""
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
        """Return the statement for a range."""
        return f"{self.select} WHERE {self.token} > {tokens.after} AND {self.token} <= {tokens.through}"

    def has_expiring(self, rows: Sequence[RawRow]) -> bool:
        """Return whether any cell of these rows expires."""
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
