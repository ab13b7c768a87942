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

`EMPTY` is stored as null: in a cell the rank distinguishes it from a tombstone, in a key nothing else is null.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from cdc_views.model.naming import physical_name
from cdc_views.model.types import EMPTY, STORED_BITS, Kind, LogicalType, MapOf, RecordOf, Scalar, SequenceOf, Udt
from cdc_views.rules.codec.times import duration_text, parse_duration
from cdc_views.rules.codec.wholes import digits_of, whole_of

_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_ARROW = {
    **{kind: _INTEGERS[bits] for kind, bits in STORED_BITS.items()},
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.BLOB: pa.binary(),
    Kind.DATE: pa.int32(),
}
_TEXTS: dict[Kind, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    Kind.DECIMAL: (str, Decimal),
    Kind.VARINT: (digits_of, whole_of),
    Kind.UUID: (str, uuid.UUID),
    Kind.TIMEUUID: (str, uuid.UUID),
    Kind.INET: (str, str),
    Kind.DURATION: (duration_text, parse_duration),
}
"""The writer and the reader of each kind in `types.TEXT_STORED`."""


def arrow_type(kind: LogicalType) -> pa.DataType:
    """Return the Arrow type that stores values of `kind` in one cell."""
    match kind:
        case Scalar():
            return _ARROW.get(kind.kind, pa.string())
        case SequenceOf():
            return pa.list_(arrow_type(kind.element))
        case MapOf():
            entry = [pa.field("key", arrow_type(kind.key)), pa.field("value", arrow_type(kind.value))]
            return pa.list_(pa.struct(entry))
        case RecordOf():
            return pa.struct([pa.field(name, arrow_type(field)) for name, field in struct_fields(kind)])
    raise TypeError(f"no physical type for {kind!r}")


def struct_fields(kind: RecordOf) -> list[tuple[str, LogicalType]]:
    """Return the fields of the struct that stores values of `kind`: name and logical type."""
    if isinstance(kind, Udt):
        return [(physical_name(name), field) for name, field in kind.fields]
    return [(f"f{i}", field) for i, field in enumerate(kind.field_types)]


def to_physical(kind: LogicalType, value: Any) -> Any:
    """Return Arrow's value of a native value; null for None and for `EMPTY`."""
    if value is None or value is EMPTY:
        return None
    match kind:
        case Scalar():
            return _TEXTS[kind.kind][0](value) if kind.kind in _TEXTS else value
        case SequenceOf():
            return [to_physical(kind.element, item) for item in value]
        case MapOf():
            return [{"key": to_physical(kind.key, k), "value": to_physical(kind.value, v)} for k, v in value]
        case RecordOf():
            fields = zip(struct_fields(kind), value, strict=True)
            return {name: to_physical(field, item) for (name, field), item in fields}
    raise TypeError(f"no physical type for {kind!r}")


def from_physical(kind: LogicalType, value: Any) -> Any:
    """Return the native value of a stored value; None for null, never `EMPTY`."""
    if value is None:
        return None
    match kind:
        case Scalar():
            return _TEXTS[kind.kind][1](value) if kind.kind in _TEXTS and isinstance(value, str) else value
        case SequenceOf():
            return tuple(from_physical(kind.element, item) for item in value)
        case MapOf():
            return tuple((from_physical(kind.key, e["key"]), from_physical(kind.value, e["value"])) for e in value)
        case RecordOf():
            # a value lacks the fields that its type gained later
            return tuple(from_physical(field, value.get(name)) for name, field in struct_fields(kind))
    raise TypeError(f"no native value for {kind!r}")
