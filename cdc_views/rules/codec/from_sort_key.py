"""Native values back from comparables: the inverse of `codec.comparable`, up to what rule K2 calls equal.

A decimal comes back without its trailing zeros, and NaN as one NaN; everything else exactly. Raw tables keep the
bounds of range deletions as comparables only.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from cdc_views.model.types import (
    EMPTY,
    INTEGER_BITS,
    Kind,
    ListOf,
    LogicalType,
    MapOf,
    Scalar,
    SetOf,
    TupleOf,
    Udt,
    VectorOf,
    is_text,
)
from cdc_views.rules.codec.serialized import deserialize

_END = b"\x00\x01"
_TOP = 1 << 63
_SIZE_BYTES = 5
_SIZE_SHIFT = 1 << 39


def uncomparable(kind: LogicalType, data: bytes) -> Any:
    """Return a native value whose comparable is `data`.

    >>> from cdc_views.rules.codec.comparable import comparable
    >>> varint = Scalar(Kind.VARINT)
    >>> uncomparable(varint, comparable(varint, -1200))
    -1200
    """
    if not data and not is_text(kind):
        return EMPTY
    match kind:
        case Scalar():
            return _SCALARS[kind.kind](data)
        case ListOf() | SetOf() | VectorOf():
            return tuple(uncomparable(kind.element, part) for part in _parts(data) if part is not None)
        case MapOf():
            parts = [part for part in _parts(data) if part is not None]
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return tuple((uncomparable(kind.key, k), uncomparable(kind.value, v)) for k, v in pairs)
        case TupleOf():
            return _record(kind.fields, data)
        case Udt():
            return _record(tuple(field for _, field in kind.fields), data)
    raise TypeError(f"no order for {kind!r}")


def _record(kinds: tuple[LogicalType, ...], data: bytes) -> tuple[Any, ...]:
    parts = [*_parts(data, missing=b"\x01", present=b"\x02")]
    parts += [None] * (len(kinds) - len(parts))
    return tuple(None if part is None else uncomparable(kind, part) for kind, part in zip(kinds, parts, strict=True))


def _parts(data: bytes, *, missing: bytes = b"", present: bytes = b"\x01") -> Iterator[bytes | None]:
    """Yield the parts of a sequence or record, unescaped; None for a missing field."""
    at = 0
    while data[at : at + 1] not in (b"\x00", b""):
        if data[at : at + 1] == missing:
            yield None
            at += 1
            continue
        assert data[at : at + 1] == present
        end = data.index(_END, at + 1)
        yield data[at + 1 : end].replace(b"\x00\xff", b"\x00")
        at = end + len(_END)


def _signed(bits: int) -> Callable[[bytes], int]:
    return lambda data: int.from_bytes(data, "big") - (1 << (bits - 1))


def _floating(data: bytes) -> float:
    bits = int.from_bytes(data, "big")
    plain = bits ^ _TOP if bits & _TOP else bits ^ (_TOP | _TOP - 1)
    (value,) = struct.unpack(">d", plain.to_bytes(8, "big"))
    return float(value)


def _number(data: bytes) -> Decimal:
    if data == b"\x01":
        return Decimal(0)
    is_negative = data[0] == 0
    magnitude = bytes(b ^ 0xFF for b in data[1:]) if is_negative else data[1:]
    digits = magnitude[_SIZE_BYTES:-1].decode()
    exponent = int.from_bytes(magnitude[:_SIZE_BYTES], "big") - _SIZE_SHIFT - len(digits)
    return Decimal((int(is_negative), tuple(map(int, digits)), exponent))


def _uuid(data: bytes) -> uuid.UUID:
    return _from_time(data[1:9], data[9:]) if data[0] == 1 else uuid.UUID(bytes=data[1:])


def _timeuuid(data: bytes) -> uuid.UUID:
    return _from_time(data[:8], bytes(b ^ 0x80 for b in data[8:]))


def _from_time(time: bytes, rest: bytes) -> uuid.UUID:
    high, middle, low = int.from_bytes(time[:2], "big"), time[2:4], time[4:]
    return uuid.UUID(bytes=low + middle + (high | 0x1000).to_bytes(2, "big") + rest)


_SCALARS: dict[Kind, Callable[[bytes], Any]] = {
    Kind.ASCII: bytes.decode,
    Kind.TEXT: bytes.decode,
    Kind.JSON: bytes.decode,
    Kind.BLOB: bytes,
    Kind.BOOLEAN: lambda data: data == b"\x01",
    Kind.DATE: _signed(40),
    Kind.TIME: _signed(64),
    Kind.TIMESTAMP: _signed(64),
    Kind.DATETIME: _signed(64),
    Kind.INSTANT: _signed(64),
    Kind.DECIMAL: _number,
    Kind.VARINT: lambda data: int(_number(data)),
    Kind.FLOAT: _floating,
    Kind.DOUBLE: _floating,
    Kind.UUID: _uuid,
    Kind.TIMEUUID: _timeuuid,
    Kind.INET: lambda data: deserialize(Scalar(Kind.INET), data),
    Kind.DURATION: lambda data: deserialize(Scalar(Kind.DURATION), data),
    **{kind: _signed(bits) for kind, bits in INTEGER_BITS.items()},
}
