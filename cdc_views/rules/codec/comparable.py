"""Comparables: bytes whose unsigned order is the order of keys (rules K1 and K2), and native values from them.

Equal keys have equal comparables, so SQL can group, join and sort by them where its own `=` and `<` differ from Cassandra's
comparators (decimal 1.0 = 1.00, -0.0 < 0.0, uuid by version, timeuuid by time …).
Source: Cassandra 5.0, `compareCustom` in `db.marshal` (`DecimalType`, `DoubleType`, `UUIDType`, `TimeUUIDType`, `TupleType`,
`ListType`, `MapType`), read as a description.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

from cdc_views.model.types import EMPTY, STORED_BITS, TEXT_KINDS, Kind, LogicalType, MapOf, RecordOf, Scalar, SequenceOf, is_text
from cdc_views.rules.codec.serialized import deserialize, serialize

_END = b"\x00\x01"
_MISSING, _PRESENT = b"\x01", b"\x02"
_NAN = b"\xff" * 8
_TOP = 1 << 63
_ALL_ONES = (1 << 64) - 1
_SIZE_BYTES = 5
_SIZE_SHIFT = 1 << 39


def comparable(kind: LogicalType, value: Any) -> bytes:
    """Return bytes that sort as `value` does by rule K2; `EMPTY` sorts before all other values."""
    if value is EMPTY:
        return b""
    if isinstance(kind, Scalar):
        return _TO_ORDER[kind.kind](value)
    match kind:
        case SequenceOf():
            return _sequence(comparable(kind.element, item) for item in value)
        case MapOf():
            return _sequence(c for k, v in value for c in (comparable(kind.key, k), comparable(kind.value, v)))
        case RecordOf():
            return _record(kind.field_types, value)
    raise TypeError(f"no order for {kind!r}")


def uncomparable(kind: LogicalType, data: bytes) -> Any:
    """Return a native value whose comparable is `data`: raw tables keep only comparables of the bounds of range deletions.
    Decimals lose trailing zeros, and all NaN become one, which rule K2 calls equal; other values are exact.

    >>> uncomparable(Scalar(Kind.VARINT), comparable(Scalar(Kind.VARINT), -1200))
    -1200
    """
    if not data and not is_text(kind):
        return EMPTY
    match kind:
        case Scalar():
            return _FROM_ORDER[kind.kind](data)
        case SequenceOf():
            return tuple(uncomparable(kind.element, part) for part in _sequence_parts(data))
        case MapOf():
            parts = _sequence_parts(data)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            return tuple((uncomparable(kind.key, k), uncomparable(kind.value, v)) for k, v in pairs)
        case RecordOf():
            return _record_values(kind.field_types, data)
    raise TypeError(f"no order for {kind!r}")


def partition_identity(kind: LogicalType, value: Any) -> bytes:
    """Return bytes that are equal iff the serialized values are (K1) and sort by K2: decimals 1.0 and 1.00 are two partitions."""
    return _ended(comparable(kind, value)) + serialize(kind, value)


def _ended(part: bytes) -> bytes:
    # 0x00 must stay below every continuation, so that a prefix sorts before its extensions
    return part.replace(b"\x00", b"\x00\xff") + _END


def _sequence(parts: Iterable[bytes]) -> bytes:
    return b"".join(b"\x01" + _ended(part) for part in parts) + b"\x00"


def _sequence_parts(data: bytes) -> list[bytes]:
    return [part for part in _parts(data, missing=b"", present=b"\x01") if part is not None]


def _record(kinds: Iterable[LogicalType], values: Iterable[Any]) -> bytes:
    parts = []
    for kind, value in zip(kinds, values, strict=False):
        parts.append(_MISSING if value is None else _PRESENT + _ended(comparable(kind, value)))
    while parts and parts[-1] == _MISSING:
        parts.pop()  # trailing missing fields equal absent ones
    return b"".join(parts) + b"\x00"


def _record_values(kinds: tuple[LogicalType, ...], data: bytes) -> tuple[Any, ...]:
    parts = [*_parts(data, missing=_MISSING, present=_PRESENT)]
    parts += [None] * (len(kinds) - len(parts))
    return tuple(None if part is None else uncomparable(kind, part) for kind, part in zip(kinds, parts, strict=True))


def _parts(data: bytes, *, missing: bytes, present: bytes) -> Iterator[bytes | None]:
    """Yield the parts of a sequence or record; None for a missing field."""
    at = 0
    while (mark := data[at : at + 1]) not in (b"\x00", b""):
        if mark == missing:
            yield None
            at += 1
            continue
        assert mark == present
        end = data.index(_END, at + 1)
        yield data[at + 1 : end].replace(b"\x00\xff", b"\x00")
        at = end + len(_END)


_Pair = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


def _signed(bits: int) -> _Pair:
    half = 1 << (bits - 1)
    return lambda value: (value + half).to_bytes(bits // 8, "big"), lambda data: int.from_bytes(data, "big") - half


def _serialized(kind: Kind) -> _Pair:
    return lambda value: serialize(Scalar(kind), value), lambda data: deserialize(Scalar(kind), data)


def _floating(value: float) -> bytes:
    if math.isnan(value):
        return _NAN
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    flipped = bits ^ (_ALL_ONES if bits & _TOP else _TOP)
    return int(flipped).to_bytes(8, "big")


def _from_floating(data: bytes) -> float:
    bits = int.from_bytes(data, "big")
    plain = bits ^ (_TOP if bits & _TOP else _ALL_ONES)
    return float(struct.unpack(">d", plain.to_bytes(8, "big"))[0])


def _number(value: Decimal | int) -> bytes:
    """Encode sign, decimal exponent and digits, complemented below zero: equal numbers of any scale give equal bytes."""
    sign, digits, exponent = Decimal(value).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return b"\x01"
    magnitude = (len(text) + int(exponent) + _SIZE_SHIFT).to_bytes(_SIZE_BYTES, "big") + text.rstrip("0").encode() + b"\x00"
    return b"\x00" + bytes(b ^ 0xFF for b in magnitude) if sign else b"\x02" + magnitude


def _from_number(data: bytes) -> Decimal:
    if data == b"\x01":
        return Decimal(0)
    is_negative = data[0] == 0
    magnitude = bytes(b ^ 0xFF for b in data[1:]) if is_negative else data[1:]
    digits = magnitude[_SIZE_BYTES:-1].decode()
    exponent = int.from_bytes(magnitude[:_SIZE_BYTES], "big") - _SIZE_SHIFT - len(digits)
    return Decimal((int(is_negative), tuple(map(int, digits)), exponent))


def _uuid(value: uuid.UUID) -> bytes:
    version = value.bytes[6] >> 4
    return bytes([version]) + (value.time.to_bytes(8, "big") + value.bytes[8:] if version == 1 else value.bytes)


def _from_uuid(data: bytes) -> uuid.UUID:
    return _from_time(data[1:9], data[9:]) if data[0] == 1 else uuid.UUID(bytes=data[1:])


def _timeuuid(value: uuid.UUID) -> bytes:
    # Cassandra compares the low half as *signed* bytes: flipped sign bits make the order unsigned
    return value.time.to_bytes(8, "big") + bytes(b ^ 0x80 for b in value.bytes[8:])


def _from_timeuuid(data: bytes) -> uuid.UUID:
    return _from_time(data[:8], bytes(b ^ 0x80 for b in data[8:]))


def _from_time(time: bytes, rest: bytes) -> uuid.UUID:
    high, middle, low = int.from_bytes(time[:2], "big"), time[2:4], time[4:]
    return uuid.UUID(bytes=low + middle + (high | 0x1000).to_bytes(2, "big") + rest)


_SCALARS: dict[Kind, _Pair] = {
    **dict.fromkeys(TEXT_KINDS, (str.encode, bytes.decode)),
    **{kind: _signed(bits) for kind, bits in STORED_BITS.items()},
    Kind.BLOB: (bytes, bytes),
    Kind.BOOLEAN: (lambda value: b"\x01" if value else b"\x00", lambda data: data == b"\x01"),
    Kind.DATE: _signed(40),
    Kind.DECIMAL: (_number, _from_number),
    Kind.VARINT: (_number, lambda data: int(_from_number(data))),
    Kind.FLOAT: (_floating, _from_floating),
    Kind.DOUBLE: (_floating, _from_floating),
    Kind.UUID: (_uuid, _from_uuid),
    Kind.TIMEUUID: (_timeuuid, _from_timeuuid),
    Kind.INET: _serialized(Kind.INET),
    Kind.DURATION: _serialized(Kind.DURATION),
}
_TO_ORDER = {kind: to for kind, (to, _) in _SCALARS.items()}
_FROM_ORDER = {kind: back for kind, (_, back) in _SCALARS.items()}
