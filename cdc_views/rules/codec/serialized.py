"""Cassandra's serialized values, which rules C2.6 and K1 compare. Source: Cassandra 5.0, `org.apache.cassandra.serializers` and
`utils.vint.VIntCoding` (read as a description).
"""

from __future__ import annotations

import decimal
import ipaddress
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.model.types import (
    EMPTY,
    STORED_BITS,
    TEXT_KINDS,
    Kind,
    LogicalType,
    MapOf,
    RecordOf,
    Scalar,
    SequenceOf,
    VectorOf,
    is_text,
)
from cdc_views.rules.codec.wholes import digits_of, whole_of

_DATE_SHIFT = 1 << 31  # a `date` is serialized as unsigned days with the epoch in the middle

_FIXED_WIDTH = {
    Kind.BOOLEAN: 1, Kind.INT: 4, Kind.BIGINT: 8, Kind.FLOAT: 4, Kind.DOUBLE: 8,
    Kind.UUID: 16, Kind.TIMEUUID: 16, Kind.TIMESTAMP: 8,
}  # fmt: skip
"""Types that a vector stores without a length per element (Cassandra 5.0, `AbstractType.valueLengthIfFixed`)."""


def serialize(kind: LogicalType, value: Any) -> bytes:
    """Return Cassandra's bytes of the native `value`, which must not be None; `b""` for `EMPTY`."""
    if value is EMPTY:
        return b""
    if isinstance(kind, Scalar):
        return _WRITE[kind.kind](value)
    match kind:
        case VectorOf():
            return b"".join(_vector_element(kind.element, item) for item in value)
        case SequenceOf():
            return struct.pack(">i", len(value)) + b"".join(_sized(kind.element, item) for item in value)
        case MapOf():
            return struct.pack(">i", len(value)) + b"".join(_sized(kind.key, k) + _sized(kind.value, v) for k, v in value)
        case RecordOf():
            return b"".join(_sized(field, item) for field, item in zip(kind.field_types, value, strict=False))
    raise TypeError(f"no serialized form for {kind!r}")


def deserialize(kind: LogicalType, data: bytes) -> Any:
    """Return the native value of `data`; raises `MalformedEventError` if it is not a value of `kind`."""
    if not data and not is_text(kind):
        return EMPTY
    try:
        if isinstance(kind, Scalar):
            return _READ[kind.kind](data)
        return _read_nested(kind, data)
    except (ValueError, struct.error, IndexError, OverflowError) as error:
        raise MalformedEventError(f"bytes {data[:32].hex()} are not a {kind}: {error}") from error


def _read_nested(kind: LogicalType, data: bytes) -> Any:
    match kind:
        case VectorOf():
            return tuple(_vector_values(kind, data))
        case SequenceOf():
            return tuple(_value(kind.element, part) for part in _counted_parts(data))
        case MapOf():
            parts = _counted_parts(data, per_entry=2)
            return tuple((_value(kind.key, k), _value(kind.value, v)) for k, v in zip(parts[::2], parts[1::2], strict=True))
        case RecordOf():
            return _fields(kind.field_types, data)
    raise TypeError(f"no serialized form for {kind!r}")


def _value(kind: LogicalType, part: bytes | None) -> Any:
    return None if part is None else deserialize(kind, part)


def _fields(kinds: tuple[LogicalType, ...], data: bytes) -> tuple[Any, ...]:
    """Return the values of a tuple or user type; fields that the type gained later are None."""
    parts = list(_sized_parts(data, 0))
    if len(parts) > len(kinds):
        raise ValueError(f"{len(parts)} fields where the type has {len(kinds)}")
    values = [_value(kind, part) for kind, part in zip(kinds, parts, strict=False)]
    return tuple(values + [None] * (len(kinds) - len(values)))


def _counted_parts(data: bytes, *, per_entry: int = 1) -> list[bytes | None]:
    (count,) = struct.unpack_from(">i", data)
    parts = list(_sized_parts(data, 4))
    if len(parts) != count * per_entry:
        raise ValueError(f"{len(parts)} elements where its count says {count * per_entry}")
    return parts


def _sized_parts(data: bytes, start: int) -> Iterator[bytes | None]:
    while start < len(data):
        (size,) = struct.unpack_from(">i", data, start)
        start += 4
        if size < 0:
            yield None
            continue
        if start + size > len(data):
            raise ValueError("it ends in the middle of an element")
        yield data[start : start + size]
        start += size


def _sized(kind: LogicalType, value: Any) -> bytes:
    if value is None:
        return struct.pack(">i", -1)
    data = serialize(kind, value)
    return struct.pack(">i", len(data)) + data


def _fixed_width(kind: LogicalType) -> int | None:
    if isinstance(kind, Scalar):
        return _FIXED_WIDTH.get(kind.kind)
    if isinstance(kind, VectorOf):
        width = _fixed_width(kind.element)
        return None if width is None else width * kind.size
    return None


def _vector_element(kind: LogicalType, value: Any) -> bytes:
    data = serialize(kind, value)
    return data if _fixed_width(kind) is not None else _write_vint(len(data)) + data


def _vector_values(kind: VectorOf, data: bytes) -> Iterator[Any]:
    width, start = _fixed_width(kind.element), 0
    for _ in range(kind.size):
        size, begin = (width, start) if width is not None else _read_vint(data, start)
        if begin + size > len(data):
            raise ValueError("it ends in the middle of an element")
        yield deserialize(kind.element, data[begin : begin + size])
        start = begin + size
    if start != len(data):
        raise ValueError(f"{len(data) - start} bytes are left over")


def _write_vint(number: int) -> bytes:
    """Return Cassandra's variable-length form of a number >= 0: the leading ones of the first byte count the bytes after it."""
    extra = max(0, (max(number.bit_length(), 1) - 1) // 7)
    if extra >= 8:
        return b"\xff" + number.to_bytes(8, "big")
    body = number.to_bytes(extra + 1, "big")
    return bytes([body[0] | (0xFF << (8 - extra)) & 0xFF]) + body[1:]


def _read_vint(data: bytes, start: int) -> tuple[int, int]:
    """Return the number at `start` and the index after it."""
    first = data[start]
    extra = 8 - (first ^ 0xFF).bit_length()
    end = start + 1 + extra
    if end > len(data):
        raise ValueError("it ends in the middle of a number")
    return (first & (0xFF >> extra)) << (8 * extra) | int.from_bytes(data[start + 1 : end], "big"), end


def _write_duration(value: tuple[int, int, int]) -> bytes:
    return b"".join(_write_vint((part << 1) ^ (part >> 63)) for part in value)


def _read_duration(data: bytes) -> tuple[int, int, int]:
    """Undo the zigzag code, which keeps small parts short, whether above or below 0."""
    parts, start = [], 0
    for _ in range(3):
        number, start = _read_vint(data, start)
        parts.append((number >> 1) ^ -(number & 1))
    return parts[0], parts[1], parts[2]


def _write_varint(value: int) -> bytes:
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return value.to_bytes(size, "big", signed=True)


def _write_decimal(value: decimal.Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    unscaled = whole_of("".join(map(str, digits)) or "0")
    return struct.pack(">i", -int(exponent)) + _write_varint(-unscaled if sign else unscaled)


def _read_decimal(data: bytes) -> decimal.Decimal:
    (scale,) = struct.unpack_from(">i", data)
    unscaled = int.from_bytes(data[4:], "big", signed=True)
    return decimal.Decimal((int(unscaled < 0), tuple(map(int, digits_of(abs(unscaled)))), -scale))


def java_inet(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return an address as Java prints it: IPv6 without `::`, an IPv4-mapped one as IPv4."""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(format(int(group, 16), "x") for group in address.exploded.split(":"))


def _exactly(width: int, data: bytes) -> bytes:
    if len(data) != width:
        raise ValueError(f"{len(data)} bytes where {width} were expected")
    return data


_Pair = tuple[Callable[[Any], bytes], Callable[[bytes], Any]]


def _signed(bits: int) -> _Pair:
    width = bits // 8
    return (
        lambda value: value.to_bytes(width, "big", signed=True),
        lambda data: int.from_bytes(_exactly(width, data), "big", signed=True),
    )


def _floating(form: str) -> _Pair:
    return lambda value: struct.pack(form, value), lambda data: struct.unpack(form, data)[0]


_UUID: _Pair = (lambda value: bytes(value.bytes), lambda data: uuid.UUID(bytes=data))
_SCALARS: dict[Kind, _Pair] = {
    **dict.fromkeys(TEXT_KINDS, (str.encode, bytes.decode)),
    **{kind: _signed(bits) for kind, bits in STORED_BITS.items()},
    Kind.BLOB: (bytes, bytes),
    Kind.BOOLEAN: (lambda value: b"\x01" if value else b"\x00", lambda data: _exactly(1, data) != b"\x00"),
    Kind.DATE: (
        lambda value: (value + _DATE_SHIFT).to_bytes(4, "big"),
        lambda data: int.from_bytes(_exactly(4, data), "big") - _DATE_SHIFT,
    ),
    Kind.DECIMAL: (_write_decimal, _read_decimal),
    Kind.VARINT: (_write_varint, lambda data: int.from_bytes(data, "big", signed=True)),
    Kind.FLOAT: _floating(">f"),
    Kind.DOUBLE: _floating(">d"),
    Kind.DURATION: (_write_duration, _read_duration),
    Kind.INET: (lambda value: ipaddress.ip_address(value).packed, lambda data: java_inet(ipaddress.ip_address(data))),
    Kind.UUID: _UUID,
    Kind.TIMEUUID: _UUID,
}
_WRITE = {kind: write for kind, (write, _) in _SCALARS.items()}
_READ = {kind: read for kind, (_, read) in _SCALARS.items()}
