"""Cassandra's serialized form of values: what rule C2.6 compares and rule K1 calls equal.

Source: Cassandra 5.0, `org.apache.cassandra.serializers` and `utils.vint.VIntCoding` (read as a description).
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
from cdc_views.rules.codec.wholes import digits_of, whole_of

DATE_SHIFT = 1 << 31
"""A `date` is serialized as unsigned days with the epoch in the middle."""

_FIXED_WIDTH = {
    Kind.BOOLEAN: 1, Kind.INT: 4, Kind.BIGINT: 8, Kind.FLOAT: 4, Kind.DOUBLE: 8,
    Kind.UUID: 16, Kind.TIMEUUID: 16, Kind.TIMESTAMP: 8,
}  # fmt: skip
"""Types a vector stores without a length before each element (Cassandra 5.0, `AbstractType.valueLengthIfFixed`)."""


def serialize(kind: LogicalType, value: Any) -> bytes:
    """Return the bytes Cassandra stores for the native `value`; `EMPTY` gives `b""`. Never takes None."""
    if value is EMPTY:
        return b""
    if isinstance(kind, Scalar):
        return _WRITE[kind.kind](value)
    match kind:
        case ListOf() | SetOf():
            return _count(value) + b"".join(_sized(kind.element, item) for item in value)
        case MapOf():
            return _count(value) + b"".join(_sized(kind.key, k) + _sized(kind.value, v) for k, v in value)
        case TupleOf():
            return b"".join(_sized(field, item) for field, item in zip(kind.fields, value, strict=False))
        case Udt():
            return b"".join(_sized(field, item) for (_, field), item in zip(kind.fields, value, strict=False))
        case VectorOf():
            return b"".join(_vector_element(kind.element, item) for item in value)
    raise TypeError(f"no serialized form for {kind!r}")


def deserialize(kind: LogicalType, data: bytes) -> Any:
    """Return the native value of `data`; raises `MalformedEventError` when it is not a value of `kind`."""
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
        case ListOf() | SetOf():
            return tuple(_value(kind.element, part) for part in _parts(data))
        case MapOf():
            parts = list(_parts(data, per_entry=2))
            return tuple((_value(kind.key, k), _value(kind.value, v)) for k, v in zip(parts[::2], parts[1::2], strict=True))
        case TupleOf():
            return _fields(kind.fields, data)
        case Udt():
            return _fields(tuple(field for _, field in kind.fields), data)
        case VectorOf():
            return tuple(_vector_values(kind, data))
    raise TypeError(f"no serialized form for {kind!r}")


def _value(kind: LogicalType, part: bytes | None) -> Any:
    return None if part is None else deserialize(kind, part)


def _fields(kinds: tuple[LogicalType, ...], data: bytes) -> tuple[Any, ...]:
    """Values of a tuple or user type; fields after the last stored one are None (the type was widened since)."""
    parts = list(_sized_parts(data, 0))
    if len(parts) > len(kinds):
        raise ValueError(f"{len(parts)} fields where the type has {len(kinds)}")
    values = [_value(kind, part) for kind, part in zip(kinds, parts, strict=False)]
    return tuple(values + [None] * (len(kinds) - len(values)))


def _parts(data: bytes, *, per_entry: int = 1) -> Iterator[bytes | None]:
    (count,) = struct.unpack_from(">i", data)
    parts = list(_sized_parts(data, 4))
    if len(parts) != count * per_entry:
        raise ValueError(f"{len(parts)} elements where its count says {count * per_entry}")
    yield from parts


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


def _count(value: tuple[Any, ...]) -> bytes:
    return struct.pack(">i", len(value))


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
    return data if _fixed_width(kind) is not None else write_unsigned_vint(len(data)) + data


def _vector_values(kind: VectorOf, data: bytes) -> Iterator[Any]:
    width, start = _fixed_width(kind.element), 0
    for _ in range(kind.size):
        size, begin = (width, start) if width is not None else read_unsigned_vint(data, start)
        if begin + size > len(data):
            raise ValueError("it ends in the middle of an element")
        yield deserialize(kind.element, data[begin : begin + size])
        start = begin + size
    if start != len(data):
        raise ValueError(f"{len(data) - start} bytes are left over")


def write_unsigned_vint(number: int) -> bytes:
    """Return Cassandra's variable-length form: the first byte's leading ones count the bytes after it."""
    extra = max(0, (max(number.bit_length(), 1) - 1) // 7)
    if extra >= 8:
        return b"\xff" + number.to_bytes(8, "big")
    body = number.to_bytes(extra + 1, "big")
    return bytes([body[0] | (0xFF << (8 - extra)) & 0xFF]) + body[1:]


def read_unsigned_vint(data: bytes, start: int) -> tuple[int, int]:
    """Return the number at `start` and the index after it."""
    first = data[start]
    extra = 8 - (first ^ 0xFF).bit_length()
    end = start + 1 + extra
    if end > len(data):
        raise ValueError("it ends in the middle of a number")
    return (first & (0xFF >> extra)) << (8 * extra) | int.from_bytes(data[start + 1 : end], "big"), end


def _zigzag(number: int) -> bytes:
    return write_unsigned_vint((number << 1) ^ (number >> 63))


def _write_duration(value: tuple[int, int, int]) -> bytes:
    return b"".join(_zigzag(part) for part in value)


def _read_duration(data: bytes) -> tuple[int, int, int]:
    parts, start = [], 0
    for _ in range(3):
        number, start = read_unsigned_vint(data, start)
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


def _integer_codec(bits: int) -> tuple[Callable[[int], bytes], Callable[[bytes], int]]:
    width = bits // 8
    return (
        lambda value: value.to_bytes(width, "big", signed=True),
        lambda data: int.from_bytes(_exactly(width, data), "big", signed=True),
    )


_WRITE: dict[Kind, Callable[[Any], bytes]] = {
    Kind.ASCII: str.encode,
    Kind.TEXT: str.encode,
    Kind.JSON: str.encode,
    Kind.BLOB: bytes,
    Kind.BOOLEAN: lambda value: b"\x01" if value else b"\x00",
    Kind.DATE: lambda value: (value + DATE_SHIFT).to_bytes(4, "big"),
    Kind.DECIMAL: _write_decimal,
    Kind.VARINT: _write_varint,
    Kind.FLOAT: lambda value: struct.pack(">f", value),
    Kind.DOUBLE: lambda value: struct.pack(">d", value),
    Kind.DURATION: _write_duration,
    Kind.INET: lambda value: ipaddress.ip_address(value).packed,
    Kind.UUID: lambda value: bytes(value.bytes),
    Kind.TIMEUUID: lambda value: bytes(value.bytes),
}
_READ: dict[Kind, Callable[[bytes], Any]] = {
    Kind.ASCII: bytes.decode,
    Kind.TEXT: bytes.decode,
    Kind.JSON: bytes.decode,
    Kind.BLOB: bytes,
    Kind.BOOLEAN: lambda data: _exactly(1, data) != b"\x00",
    Kind.DATE: lambda data: int.from_bytes(_exactly(4, data), "big") - DATE_SHIFT,
    Kind.DECIMAL: _read_decimal,
    Kind.VARINT: lambda data: int.from_bytes(data, "big", signed=True),
    Kind.FLOAT: lambda data: struct.unpack(">f", data)[0],
    Kind.DOUBLE: lambda data: struct.unpack(">d", data)[0],
    Kind.DURATION: _read_duration,
    Kind.INET: lambda data: java_inet(ipaddress.ip_address(data)),
    Kind.UUID: lambda data: uuid.UUID(bytes=data),
    Kind.TIMEUUID: lambda data: uuid.UUID(bytes=data),
}
for _kind, _bits in {**INTEGER_BITS, Kind.TIMESTAMP: 64, Kind.TIME: 64, Kind.DATETIME: 64, Kind.INSTANT: 64}.items():
    _WRITE[_kind], _READ[_kind] = _integer_codec(_bits)
