"""Native values from JSON: from `SELECT JSON`, our wire format, and keys that users name."""

from __future__ import annotations

import ipaddress
import json
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from cdc_views.errors import MalformedEventError, UnknownColumnError, UsageError
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import (
    EMPTY,
    INTEGER_BITS,
    TEXT_KINDS,
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
from cdc_views.rules.codec.comparable import comparable
from cdc_views.rules.codec.serialized import java_inet
from cdc_views.rules.codec.times import parse_date, parse_duration, parse_micros, parse_time
from cdc_views.rules.codec.wholes import check_exponent, whole_of_decimal


def _integer_token(token: str) -> int | float | Decimal:
    if len(token) > 4_000:  # only the reader of a varint makes a whole number of it
        return Decimal(token)
    return -0.0 if token == "-0" else int(token)


def _decimal_token(token: str) -> Decimal:
    try:
        return Decimal(token)
    except InvalidOperation as error:
        raise ValueError(f"the exponent of {token[:40]} is beyond all that is read") from error


def _refuse_constant(token: str) -> Any:
    raise ValueError(f"{token} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"member {twice!r} occurs twice in one object")
    return found


_DECODER = json.JSONDecoder(
    parse_float=_decimal_token, parse_int=_integer_token, parse_constant=_refuse_constant, object_pairs_hook=_unique
)


def parse_json(text: str) -> Any:
    """Parse a document into int, `Decimal`, -0.0 (the only float), str, bool, None, list, dict; raises `MalformedEventError`."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise MalformedEventError(f"not JSON: {error}") from error


def from_json(kind: LogicalType, value: Any) -> Any:
    """Return the native value of parsed JSON; raises `MalformedEventError`. `null` is NaN for float and double, since JSON has no
    NaN, and a missing field inside tuples and user types. `""` is `EMPTY` if the type is not text.
    """
    if value == "" and isinstance(value, str) and not is_text(kind):
        # a duration of 0 prints as "" too; if its 3 serialized bytes are given, they decide
        return (0, 0, 0) if kind == Scalar(Kind.DURATION) else EMPTY
    try:
        if isinstance(kind, Scalar):
            return _SCALARS[kind.kind](value)
        return _nested(kind, value)
    except (ValueError, TypeError, AttributeError, InvalidOperation, OverflowError, struct.error) as error:
        raise MalformedEventError(f"{json.dumps(value, default=str)[:80]} is not a {kind}: {error}") from error


def _nested(kind: LogicalType, value: Any) -> Any:
    match kind:
        case ListOf():
            return tuple(from_json(kind.element, item) for item in _array(value))
        case SetOf():
            element = kind.element
            by_order = {comparable(element, item): item for item in (from_json(element, entry) for entry in _array(value))}
            return tuple(by_order[key] for key in sorted(by_order))
        case VectorOf():
            if len(_array(value)) != kind.size:
                raise ValueError(f"{len(value)} elements where {kind.size} were expected")
            return tuple(from_json(kind.element, item) for item in value)
        case MapOf():
            entries = [(_map_key(kind.key, k), from_json(kind.value, v)) for k, v in _object(value).items()]
            return tuple(sorted(entries, key=lambda entry: comparable(kind.key, entry[0])))
        case TupleOf():
            items = _array(value)
            if len(items) > len(kind.fields):
                raise ValueError(f"{len(items)} fields where the type has {len(kind.fields)}")
            items = items + [None] * (len(kind.fields) - len(items))
            return tuple(_field(field, item) for field, item in zip(kind.fields, items, strict=True))
        case Udt():
            return _user_type(kind, _object(value))
    raise TypeError(f"no JSON for {kind!r}")


def _field(kind: LogicalType, value: Any) -> Any:
    return None if value is None else from_json(kind, value)


def _user_type(kind: Udt, value: dict[str, Any]) -> tuple[Any, ...]:
    plain = {_unquoted(name): item for name, item in value.items()}
    unknown = plain.keys() - {name for name, _ in kind.fields}
    if unknown:
        raise ValueError(f"type {kind.name} has no field {sorted(unknown)[0]!r}")
    return tuple(_field(field, plain.get(name)) for name, field in kind.fields)


def _unquoted(name: str) -> str:
    # SELECT JSON keeps the CQL quotes of a field name that has capitals
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name


def _map_key(kind: LogicalType, text: str) -> Any:
    """Return the map key that a JSON member name holds: the text itself or, for types other than text, JSON."""
    if isinstance(kind, Scalar) and (kind.kind in _TEXT_TOKENS or text == ""):
        return from_json(kind, text)
    return from_json(kind, parse_json(text))


def _only(wanted: type, what: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, wanted):
            raise ValueError(f"{what} was expected")
        return value

    return read


_array, _object, _boolean = _only(list, "an array"), _only(dict, "an object"), _only(bool, "true or false")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a string was expected")
    value.encode()  # fails for a lone surrogate, which is not text
    return value


def _integer(bits: int | None) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
            raise ValueError("an integer was expected")
        number = whole_of_decimal(value) if isinstance(value, Decimal) else int(value)
        if number != value:
            raise ValueError("an integer was expected")
        if bits is not None and not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError(f"it does not fit {bits} bits")
        return number

    return read


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("a number was expected")
    return value


def _float32(value: Any) -> float:
    return float(struct.unpack(">f", struct.pack(">f", _float64(value)))[0])


def _float64(value: Any) -> float:
    return math.nan if value is None else float(_number(value))


def _blob(value: Any) -> bytes:
    text = _text(value)
    if not text.startswith("0x"):
        raise ValueError("0x and hex digits were expected")
    return bytes.fromhex(text[2:])


def _uuid(value: Any) -> uuid.UUID:
    text = _text(value)
    if len(text) != 36:
        raise ValueError("a UUID of 36 characters was expected")
    return uuid.UUID(text)


def _timeuuid(value: Any) -> uuid.UUID:
    found = _uuid(value)
    if found.version != 1 and found.bytes[6] >> 4 != 1:
        raise ValueError("a version 1 UUID was expected")
    return found


def _timestamp(*, micros: int) -> Callable[[Any], int]:
    """Return a reader of numbers in the unit of the kind, which is `micros` µs, and of texts."""
    of_number = _integer(64)
    return lambda value: of_number(value) if isinstance(value, int) else parse_micros(_text(value)) // micros


def _decimal(value: Any) -> Decimal:
    return check_exponent(Decimal(0) if value == 0 and isinstance(value, float) else Decimal(_number(value)))


_TEXT_TOKENS = frozenset(
    {Kind.TEXT, Kind.ASCII, Kind.BLOB, Kind.UUID, Kind.TIMEUUID, Kind.INET, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.DURATION}
)
_SCALARS: dict[Kind, Callable[[Any], Any]] = {
    **dict.fromkeys(TEXT_KINDS, _text),
    Kind.BLOB: _blob,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: lambda value: parse_date(_text(value)),
    Kind.TIME: lambda value: parse_time(_text(value)),
    Kind.TIMESTAMP: _timestamp(micros=1000),
    Kind.DATETIME: _timestamp(micros=1),
    Kind.INSTANT: _timestamp(micros=1),
    Kind.DURATION: lambda value: parse_duration(_text(value)),
    Kind.DECIMAL: _decimal,
    Kind.VARINT: _integer(None),
    Kind.FLOAT: _float32,
    Kind.DOUBLE: _float64,
    Kind.UUID: _uuid,
    Kind.TIMEUUID: _timeuuid,
    Kind.INET: lambda value: java_inet(ipaddress.ip_address(_text(value))),
    **{kind: _integer(bits) for kind, bits in INTEGER_BITS.items()},
}


def parse_key(schema: TableSchema, key: Mapping[str, Any] | str) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Return the native (partition, clustering) of a user's key, JSON text or parsed; clustering is None if it is not given."""
    try:
        given = parse_json(key) if isinstance(key, str) else dict(key)
    except MalformedEventError as error:
        raise UsageError(f"the key is {error}; a JSON object such as {_example(schema)} was expected") from error
    if not isinstance(given, dict):
        raise UsageError(f"the key is {key!r}; a JSON object such as {_example(schema)} was expected")
    names = [column.name for column in schema.row_key]
    for name in given:
        if name not in names:
            raise UnknownColumnError(table=f"the key of {schema.full_name}", column=name, known=names)
    has_clustering = any(column.name in given for column in schema.clustering) or not schema.clustering
    wanted = schema.row_key if has_clustering else schema.partition
    for column in wanted:
        if column.name not in given:
            raise UsageError(f"the key lacks {column.name!r}; a JSON object such as {_example(schema)} was expected")
    values = [_key_value(schema, column, given[column.name]) for column in wanted]
    size = len(schema.partition)
    return tuple(values[:size]), tuple(values[size:]) if has_clustering else None


def _key_value(schema: TableSchema, column: Column, given: Any) -> Any:
    try:
        return from_json(column.type, given)
    except MalformedEventError as error:
        raise UsageError(f"the key of {schema.full_name}: {column.name!r}: {error}") from error


def _example(schema: TableSchema) -> str:
    return "{" + ", ".join(f'"{column.name}": …' for column in schema.row_key) + "}"
