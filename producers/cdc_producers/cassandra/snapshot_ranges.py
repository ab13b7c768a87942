"""The token ring in ascending ranges, and how far a snapshot has come as a landed position.

A position is the token of a partition, which reading it that was, and which of its events. A partition that is read
again (its reading stopped half way) gets positions above all of the earlier reading: rows may have come or gone
meanwhile, so the n-th event of the one is not the n-th of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from cdc_views.landing import Position

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
    """Where a snapshot stands: the token, which reading of it, and the event's number in that reading."""

    token: int
    reading: int = 0
    ordinal: int = 0


def position_of(place: RingPosition) -> Position:
    """Return a place as the two numbers that a commit records; ascending as places do."""
    above = place.token - FIRST_TOKEN
    # a token has 64 bits, a number of a commit 63: the last bit leads the second one
    nth = (above & 1) << (_ORDINAL_BITS + _READING_BITS) | place.reading << _ORDINAL_BITS | place.ordinal
    return Position(above >> 1, nth)


def place_of(position: Position) -> RingPosition:
    """Return the place that a position records."""
    nth = position.nth
    above = position.at << 1 | nth >> (_ORDINAL_BITS + _READING_BITS)
    reading = nth >> _ORDINAL_BITS & ((1 << _READING_BITS) - 1)
    return RingPosition(above + FIRST_TOKEN, reading, nth & ((1 << _ORDINAL_BITS) - 1))


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
