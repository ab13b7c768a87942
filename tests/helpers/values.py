"""Values of every type, chosen to be awkward: extremes, both zeros, equal numbers of other scales, values of 0 bytes."""

from __future__ import annotations

import math
import struct
import uuid
from decimal import Decimal
from itertools import islice, product
from random import Random
from typing import Any

from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.codec.comparable import comparable

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1
"""The ends of a signed 64-bit integer: the least and the greatest write time there is."""

NAN = math.nan

V1_OLD = uuid.UUID("00000000-0001-1000-8000-000000000000")
V1_NEW = uuid.UUID("00000000-0002-1000-8000-000000000000")
V1_NEW_HIGH = uuid.UUID("00000000-0002-1000-ff00-000000000000")
V1_NEW_LOW = uuid.UUID("00000000-0002-1000-0000-00000000007f")
V1_LATE_BUT_LESS_BY_TEXT = uuid.UUID("00000000-0001-1fff-8000-000000000000")
V4_LOW = uuid.UUID("00000000-0000-4000-8000-000000000000")
V4_HIGH = uuid.UUID("ffffffff-ffff-4fff-bfff-ffffffffffff")

TIMEUUIDS = (V1_OLD, V1_NEW, V1_NEW_HIGH, V1_NEW_LOW, V1_LATE_BUT_LESS_BY_TEXT)


def float32(value: float) -> float:
    """Return the value rounded to 32 bits, as a `float` column holds it."""
    return float(struct.unpack(">f", struct.pack(">f", value))[0])


_FLOATS = (0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, NAN)

SCALARS: dict[Kind, tuple[Any, ...]] = {
    Kind.ASCII: ("", "a", "B", "~"),
    Kind.BIGINT: (0, -1, 1, LEAST, GREATEST, 9_007_199_254_740_993, EMPTY),
    Kind.BLOB: (b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00"),
    Kind.BOOLEAN: (True, False, EMPTY),
    Kind.DATE: (0, -1, 20_000, -(1 << 31), (1 << 31) - 1, EMPTY),
    Kind.DECIMAL: (
        Decimal("1.0"), Decimal("1.00"), Decimal("-1.5"), Decimal("10"), Decimal("1E+1"), Decimal("9"), Decimal("0"),
        Decimal("0.00"), Decimal("-1E-30"), Decimal("123456789012345678901234567890.5"), EMPTY,
    ),
    Kind.DOUBLE: (*_FLOATS, 1e300, 5e-324, 0.1, EMPTY),
    Kind.DURATION: ((0, 0, 0), (1, 2, 3), (-1, 0, -5), (0, 30, 0), (14, 0, 90_000_000_000), EMPTY),
    Kind.FLOAT: (*_FLOATS, float32(0.1), float32(3e38), EMPTY),
    Kind.INET: ("0.0.0.0", "9.1.1.1", "10.0.0.1", "200.1.1.1", "0:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1", EMPTY),
    Kind.INT: (0, -1, 1, 7, -(1 << 31), (1 << 31) - 1, EMPTY),
    Kind.SMALLINT: (0, -1, 5, -32768, 32767, EMPTY),
    Kind.TEXT: ("", "a", "Z", "aa", "é", "日本", "\U0001f600", "\uffff", "it's"),
    Kind.TIME: (0, 1, 86_399_999_999_999, EMPTY),
    Kind.TIMESTAMP: (0, -1, 1_795_254_655_123, LEAST, GREATEST, EMPTY),
    Kind.TIMEUUID: (*TIMEUUIDS, EMPTY),
    Kind.TINYINT: (0, -1, 5, -128, 127, EMPTY),
    Kind.UUID: (V1_OLD, V1_NEW, V4_LOW, V4_HIGH, V1_LATE_BUT_LESS_BY_TEXT, EMPTY),
    Kind.VARINT: (0, -1, 9, 10, 127, 128, -128, -129, 10**25, -(10**25), EMPTY),
    Kind.DATETIME: (0, -1, 1_795_254_655_123_456, EMPTY),
    Kind.INSTANT: (0, -1, 1_795_254_655_123_456, EMPTY),
    Kind.JSON: ("{}", '{"a": 1}', "[1, 2]"),
}  # fmt: skip
"""Every kind but counter, which no schema may have (rule W5)."""


def values_of(kind: LogicalType) -> tuple[Any, ...]:
    """Return a few values of any type, `EMPTY` among them where the type has one; collections sorted by rule K2."""
    match kind:
        case Scalar():
            return SCALARS[kind.kind]
        case ListOf():
            few = _few(kind.element)
            return ((), (few[0],), (few[1], few[0]), few[:3])
        case SetOf():
            few = _few(kind.element)
            return ((), (few[0],), _sorted(kind.element, few[:2]), _sorted(kind.element, few))
        case MapOf():
            keys, (first, second, *_) = _sorted(kind.key, _few(kind.key)), _few(kind.value)
            return ((), ((keys[0], first),), ((keys[0], second),), tuple((key, second) for key in keys))
        case VectorOf():
            few = _few(kind.element)
            return tuple(tuple(few[(i + j) % len(few)] for j in range(kind.size)) for i in range(3))
        case TupleOf():
            return _records(kind.fields)
        case Udt():
            return _records(tuple(field for _, field in kind.fields))
    raise TypeError(kind)


def _few(kind: LogicalType) -> tuple[Any, ...]:
    return tuple(v for v in values_of(kind) if v is not EMPTY)[:4]


def _sorted(kind: LogicalType, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sorted by rule K2, and equal elements once."""
    return tuple(value for _, value in sorted({comparable(kind, v): v for v in values}.items()))


def _records(kinds: tuple[LogicalType, ...]) -> tuple[Any, ...]:
    few = [_few(kind) for kind in kinds]
    full = islice(product(*(values[:2] for values in few)), 4)
    return (*full, (*(None for _ in few[:-1]), few[-1][0]), (few[0][0], *(None for _ in few[1:])))


def some(rng: Random, kind: LogicalType, count: int) -> list[Any]:
    """Return up to `count` different values of `kind`."""
    pool = values_of(kind)
    return rng.sample(pool, min(count, len(pool)))
