"""Values of logical types as columns of a raw table: the same physical types in every engine.

============================  ==========================================================
logical                       physical (Arrow)
============================  ==========================================================
tinyint … bigint              int8 … int64
float, double, boolean        float32, float64, bool
text, ascii, json             string
blob                          binary
timestamp                     int64, ms;  datetime, instant: int64, µs;  time: int64, ns
date                          int32, days
decimal, varint, uuid,        string, in the form `query` prints
timeuuid, inet, duration
list, set, vector (frozen)    list of the element
map (frozen)                  list of struct(key, value)
tuple                         struct(f0, f1, …);  user type: struct by `physical_name`
============================  ==========================================================

`EMPTY` is stored as null: in a cell the rank tells it from a tombstone, in a key nothing else is null.
"""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa

from cdc_views.model.naming import physical_name
from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.codec.times import duration_text, parse_duration
from cdc_views.rules.codec.wholes import digits_of, whole_of

_ARROW = {
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.BLOB: pa.binary(),
    Kind.DATE: pa.int32(),
    Kind.TIME: pa.int64(),
    Kind.TIMESTAMP: pa.int64(),
    Kind.DATETIME: pa.int64(),
    Kind.INSTANT: pa.int64(),
}


def arrow_type(kind: LogicalType) -> pa.DataType:
    """Return the Arrow type that stores values of `kind` in one cell."""
    match kind:
        case Scalar():
            return _ARROW.get(kind.kind, pa.string())
        case ListOf() | SetOf() | VectorOf():
            return pa.list_(arrow_type(kind.element))
        case MapOf():
            entry = [pa.field("key", arrow_type(kind.key)), pa.field("value", arrow_type(kind.value))]
            return pa.list_(pa.struct(entry))
        case TupleOf():
            return pa.struct([pa.field(f"f{i}", arrow_type(field)) for i, field in enumerate(kind.fields)])
        case Udt():
            return pa.struct([pa.field(physical_name(name), arrow_type(field)) for name, field in kind.fields])
    raise TypeError(f"no physical type for {kind!r}")


def to_physical(kind: LogicalType, value: Any) -> Any:
    """Return what Arrow stores for a native value; null for None and for `EMPTY`."""
    if value is None or value is EMPTY:
        return None
    match kind:
        case Scalar():
            return _scalar(kind.kind, value)
        case ListOf() | SetOf() | VectorOf():
            return [to_physical(kind.element, item) for item in value]
        case MapOf():
            return [{"key": to_physical(kind.key, k), "value": to_physical(kind.value, v)} for k, v in value]
        case TupleOf():
            pairs = zip(kind.fields, value, strict=True)
            return {f"f{i}": to_physical(field, item) for i, (field, item) in enumerate(pairs)}
        case Udt():
            return {physical_name(n): to_physical(f, item) for (n, f), item in zip(kind.fields, value, strict=True)}
    raise TypeError(f"no physical type for {kind!r}")


def _scalar(kind: Kind, value: Any) -> Any:
    if kind is Kind.DURATION:
        return duration_text(value)
    if kind is Kind.VARINT:
        return digits_of(value)
    if kind in (Kind.UUID, Kind.TIMEUUID, Kind.DECIMAL, Kind.INET):
        return str(value)
    return value


def from_stored_text(kind: Kind, text: str) -> Any:
    """Return the native value of a kind stored as text (`types.TEXT_STORED`)."""
    match kind:
        case Kind.DECIMAL:
            return Decimal(text)
        case Kind.VARINT:
            return whole_of(text)
        case Kind.UUID | Kind.TIMEUUID:
            return uuid.UUID(text)
        case Kind.DURATION:
            return parse_duration(text)
    return text


def from_physical(kind: LogicalType, value: Any) -> Any:
    """Return the native value of a stored one, the inverse of `to_physical`; null gives None, never `EMPTY`."""
    if value is None:
        return None
    match kind:
        case Scalar():
            return from_stored_text(kind.kind, value) if isinstance(value, str) else value
        case ListOf() | SetOf() | VectorOf():
            return tuple(from_physical(kind.element, item) for item in value)
        case MapOf():
            return tuple((from_physical(kind.key, e["key"]), from_physical(kind.value, e["value"])) for e in value)
        case TupleOf():
            return tuple(from_physical(field, value[f"f{i}"]) for i, field in enumerate(kind.fields))
        case Udt():
            # a value from before its type gained a field lacks that
            return tuple(from_physical(field, value.get(physical_name(name))) for name, field in kind.fields)
    raise TypeError(f"no native value for {kind!r}")
