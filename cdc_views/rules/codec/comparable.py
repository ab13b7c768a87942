"""Comparables: bytes whose unsigned order is the order of keys (rules K1 and K2).

Equal comparables are equal keys, so SQL can group, join and sort by them where its own `=` and `<` differ from
Cassandra's comparators (decimal 1.0 = 1.00, -0.0 < 0.0, uuid by version, timeuuid by time …).

Source: Cassandra 5.0, `db.marshal` (`DecimalType`, `DoubleType`, `UUIDType`, `TimeUUIDType`, `TupleType`,
`ListType`, `MapType`: their `compareCustom`), read as a description.
"""

from __future__ import annotations

import decimal
import math
import struct
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from cdc_views.model.types import EMPTY, INTEGER_BITS, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.codec.serialized import serialize

_EMPTY_COMPARABLE = b""
_NAN = b"\xff" * 8
_ALL_ONES = (1 << 64) - 1


def comparable(kind: LogicalType, value: Any) -> bytes:
    """Return bytes that sort as `value` does by rule K2; an `EMPTY` value sorts before all others."""
    if value is EMPTY:
        return _EMPTY_COMPARABLE
    if isinstance(kind, Scalar):
        return _ORDER[kind.kind](value)
    match kind:
        case ListOf() | SetOf() | VectorOf():
            return _sequence(comparable(kind.element, item) for item in value)
        case MapOf():
            return _sequence(c for k, v in value for c in (comparable(kind.key, k), comparable(kind.value, v)))
        case TupleOf():
            return _record(kind.fields, value)
        case Udt():
            return _record([field for _, field in kind.fields], value)
    raise TypeError(f"no order for {kind!r}")


def partition_identity(kind: LogicalType, value: Any) -> bytes:
    """Return bytes that are equal iff the serialized values are (rule K1) and sort by rule K2 first.

    Longer than the comparable alone: decimal 1.0 and 1.00 are two partition keys, yet one clustering key.
    """
    return _escaped(comparable(kind, value)) + b"\x00\x01" + serialize(kind, value)


def _escaped(data: bytes) -> bytes:
    # 0x00 must stay below every continuation, so that a prefix sorts before what extends it
    return data.replace(b"\x00", b"\x00\xff")


def _sequence(parts: Iterable[bytes]) -> bytes:
    return b"".join(b"\x01" + _escaped(part) + b"\x00\x01" for part in parts) + b"\x00"


def _record(kinds: Iterable[LogicalType], values: Iterable[Any]) -> bytes:
    parts = []
    for kind, value in zip(kinds, values, strict=False):
        parts.append(b"\x01" if value is None else b"\x02" + _escaped(comparable(kind, value)) + b"\x00\x01")
    while parts and parts[-1] == b"\x01":
        parts.pop()  # trailing missing fields equal absent ones
    return b"".join(parts) + b"\x00"


def _signed(bits: int) -> Callable[[int], bytes]:
    return lambda value: (value + (1 << (bits - 1))).to_bytes(bits // 8, "big")


def _floating(value: float) -> bytes:
    if math.isnan(value):
        return _NAN
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    flipped = bits ^ (_ALL_ONES if bits >> 63 else 1 << 63)
    return int(flipped).to_bytes(8, "big")


def _number(value: decimal.Decimal | int) -> bytes:
    """Sign, then decimal exponent, then digits; complemented below zero. Equal numbers of any scale are equal."""
    sign, digits, exponent = decimal.Decimal(value).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return b"\x01"
    magnitude = (len(text) + int(exponent) + (1 << 39)).to_bytes(5, "big") + text.rstrip("0").encode() + b"\x00"
    return b"\x00" + bytes(b ^ 0xFF for b in magnitude) if sign else b"\x02" + magnitude


def _time_of(value: uuid.UUID) -> bytes:
    return value.time.to_bytes(8, "big")


def _uuid(value: uuid.UUID) -> bytes:
    version = value.bytes[6] >> 4
    if version == 1:
        return bytes([version]) + _time_of(value) + value.bytes[8:]
    return bytes([version]) + value.bytes


def _timeuuid(value: uuid.UUID) -> bytes:
    # Cassandra compares the low half as *signed* bytes: flipping the sign bits makes that unsigned
    return _time_of(value) + bytes(b ^ 0x80 for b in value.bytes[8:])


_ORDER: dict[Kind, Callable[[Any], bytes]] = {
    Kind.ASCII: str.encode,
    Kind.TEXT: str.encode,
    Kind.JSON: str.encode,
    Kind.BLOB: bytes,
    Kind.BOOLEAN: lambda value: b"\x01" if value else b"\x00",
    Kind.DATE: _signed(40),
    Kind.TIME: _signed(64),
    Kind.TIMESTAMP: _signed(64),
    Kind.DATETIME: _signed(64),
    Kind.INSTANT: _signed(64),
    Kind.DECIMAL: _number,
    Kind.VARINT: _number,
    Kind.FLOAT: _floating,
    Kind.DOUBLE: _floating,
    Kind.UUID: _uuid,
    Kind.TIMEUUID: _timeuuid,
    Kind.INET: lambda value: serialize(Scalar(Kind.INET), value),
    Kind.DURATION: lambda value: serialize(Scalar(Kind.DURATION), value),
    **{kind: _signed(bits) for kind, bits in INTEGER_BITS.items()},
}
