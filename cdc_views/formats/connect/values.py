"""Converts values in the encodings of Kafka Connect and Debezium to native values of logical types."""

from __future__ import annotations

import ipaddress
import json
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import InvalidOperation
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.connect.scalars import (
    blob_value,
    date_days,
    decimal_value,
    duration_parts,
    float_value,
    instant_micros,
    integer_value,
    time_nanos,
)
from cdc_views.model.types import INTEGER_BITS, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.codec.comparable import comparable
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.jsontext import json_text
from cdc_views.rules.codec.serialized import java_inet, serialize

_NOT_SO = (
    ValueError, TypeError, AttributeError, KeyError, InvalidOperation, ArithmeticError, struct.error, RecursionError,
)  # fmt: skip


def native(kind: LogicalType, value: Any, hints: Hints) -> tuple[Any, bytes]:
    """Return the native value and the serialized bytes of parsed JSON other than null; raises `MalformedEventError`."""
    try:
        found = _native(kind, value, hints)
        return found, serialize(kind, found)
    except MalformedEventError:
        raise
    except _NOT_SO as error:
        raise MalformedEventError(f"{_shown(value)} is not a {kind}: {error}") from error


def named(name: str, kind: LogicalType, value: Any, *, hints: Hints) -> tuple[Any, bytes]:
    """Convert like `native`; errors name the column."""
    try:
        return native(kind, value, hints)
    except MalformedEventError as error:
        raise MalformedEventError(f"{name!r}: {error}") from error


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, default=str)[:80]
    except (ValueError, RecursionError):
        return type(value).__name__


def _native(kind: LogicalType, value: Any, hints: Hints) -> Any:
    if isinstance(kind, Scalar):
        return _SCALARS[kind.kind](kind, value, hints)
    match kind:
        case ListOf():
            return tuple(_element(kind.element, item, hints.inside("items")) for item in array(value))
        case SetOf():
            items = [_native(kind.element, item, hints.inside("items")) for item in array(value)]
            return _in_order({comparable(kind.element, item): item for item in items})
        case VectorOf():
            return tuple(_native(kind.element, item, hints.inside("items")) for item in array(value, size=kind.size))
        case MapOf():
            return _map(kind, value, hints)
        case TupleOf():
            return _tuple(kind, value, hints)
        case Udt():
            return _user_type(kind, value, hints)
    raise TypeError(f"no Connect form of {kind!r}")


def _element(kind: LogicalType, value: Any, hints: Hints) -> Any:
    return None if value is None else _native(kind, value, hints)


def _in_order(items: Mapping[bytes, Any]) -> tuple[Any, ...]:
    return tuple(items[order] for order in sorted(items))


def map_entries(value: Any) -> list[tuple[Any, Any]]:
    """Return the (key, value) pairs of an object (text keys), or of an array of `[key, value]`, or (BigQuery) `{key, value}`."""
    if isinstance(value, dict):
        return list(value.items())
    pairs = []
    for entry in array(value):
        if isinstance(entry, dict):
            pairs.append((entry["key"], entry.get("value")))
        else:
            key, item = array(entry)
            pairs.append((key, item))
    return pairs


def map_key(kind: LogicalType, value: Any, hints: Hints) -> Any:
    """Return a map's native key; a member name is the text of a scalar, or the JSON text of another type."""
    if isinstance(value, str) and not isinstance(kind, Scalar):
        value = parse_json(value)
    if isinstance(value, str) and kind == Scalar(Kind.BOOLEAN):
        value = {"true": True, "false": False}.get(value)
    return _native(kind, value, hints.inside("keys"))


def _map(kind: MapOf, value: Any, hints: Hints) -> tuple[tuple[Any, Any], ...]:
    entries = {}
    for key, item in map_entries(value):
        found = map_key(kind.key, key, hints)
        entries[comparable(kind.key, found)] = found, _native(kind.value, item, hints.inside("values"))
    return _in_order(entries)


def _tuple(kind: TupleOf, value: Any, hints: Hints) -> tuple[Any, ...]:
    items = list(value.values()) if isinstance(value, dict) else array(value)
    if len(items) > len(kind.fields):
        raise ValueError(f"{len(items)} fields where the type has {len(kind.fields)}")
    items = items + [None] * (len(kind.fields) - len(items))
    return tuple(_element(field, item, hints.undeclared()) for field, item in zip(kind.fields, items, strict=True))


def _user_type(kind: Udt, value: Any, hints: Hints) -> tuple[Any, ...]:
    if not isinstance(value, dict):
        raise ValueError("an object was expected")
    unknown = value.keys() - {name for name, _ in kind.fields}
    if unknown:
        raise ValueError(f"type {kind.name} has no field {sorted(unknown)[0]!r}")
    return tuple(_element(field, value.get(name), hints.of_field(name)) for name, field in kind.fields)


def array(value: Any, *, size: int | None = None) -> list[Any]:
    """Return `value` if it is an array, of `size` elements if that is given; raises ValueError."""
    if not isinstance(value, list):
        raise ValueError("an array was expected")
    if size is not None and len(value) != size:
        raise ValueError(f"{len(value)} elements where {size} were expected")
    return value


def _boolean(value: Any) -> bool:
    if value in (0, 1) and not isinstance(value, str):
        return bool(value)
    if value in ("true", "false"):
        return bool(value == "true")
    raise ValueError("true or false was expected")


def _text(value: Any, hints: Hints) -> str:
    """Return a text; a number (interval, money, oid) as its digits, a struct (geometry, hstore) as its JSON."""
    if hints.semantic in ("Decimal", "VariableScaleDecimal"):  # money
        return str(decimal_value(Scalar(Kind.DECIMAL), value, hints))
    if isinstance(value, bool):
        raise ValueError("a string was expected")
    return _json(value)


def _json(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value)
    text.encode()  # a lone surrogate is not text
    return text


def _uuid(value: Any) -> uuid.UUID:
    if not isinstance(value, str) or len(value) != 36:
        raise ValueError("a UUID of 36 characters was expected")
    return uuid.UUID(value)


def _timeuuid(value: Any) -> uuid.UUID:
    found = _uuid(value)
    if found.bytes[6] >> 4 != 1:
        raise ValueError("a version 1 UUID was expected")
    return found


def _inet(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("an address was expected")
    _, slash, last = value.rpartition("/")
    if not (slash and last.isdecimal()):
        return java_inet(ipaddress.ip_address(last))  # Java writes `host/address`
    network = ipaddress.ip_interface(value)  # PostgreSQL's `::1/128`
    if network.network.prefixlen != network.max_prefixlen:
        raise ValueError("an address with a mask is a text column's value")
    return java_inet(network.ip)


_SCALARS: dict[Kind, Callable[[Scalar, Any, Hints], Any]] = {
    **dict.fromkeys((Kind.VARINT, *INTEGER_BITS), lambda kind, value, hints: integer_value(kind.kind, value, hints)),
    Kind.ASCII: lambda _, value, hints: _text(value, hints),
    Kind.TEXT: lambda _, value, hints: _text(value, hints),
    Kind.JSON: lambda _, value, hints: _json(value),
    Kind.BLOB: lambda _, value, hints: blob_value(value, hints),
    Kind.BOOLEAN: lambda _, value, hints: _boolean(value),
    Kind.DATE: lambda _, value, hints: date_days(value),
    Kind.TIME: lambda _, value, hints: time_nanos(value, hints),
    Kind.TIMESTAMP: lambda kind, value, hints: instant_micros(kind.kind, value, hints) // 1000,
    Kind.DATETIME: lambda kind, value, hints: instant_micros(kind.kind, value, hints),
    Kind.INSTANT: lambda kind, value, hints: instant_micros(kind.kind, value, hints),
    Kind.DURATION: lambda _, value, hints: duration_parts(value, hints),
    Kind.DECIMAL: decimal_value,
    Kind.FLOAT: lambda kind, value, hints: float_value(kind.kind, value),
    Kind.DOUBLE: lambda kind, value, hints: float_value(kind.kind, value),
    Kind.UUID: lambda _, value, hints: _uuid(value),
    Kind.TIMEUUID: lambda _, value, hints: _timeuuid(value),
    Kind.INET: lambda _, value, hints: _inet(value),
}
