"""Columns as the standard describes them: the types that readers of a view see, part by part."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from cdc_views.engines.duckdb.types import type_text
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf

_VECTOR_ELEMENTS = {pa.float32(): "float32", pa.float64(): "float64"}
_FORMATS = {Kind.UUID: "uuid", Kind.TIMEUUID: "uuid", Kind.BLOB: "binary"}
"""What a column shown as text, or as bytes, holds."""


def type_parts(kind: LogicalType, shown: pa.DataType, *, dialect: str) -> dict[str, Any]:
    """Return the keys of a property that say its type.

    Args:
        kind: The type in the source.
        shown: The Arrow type of what the view shows.
        dialect: sqlglot's name of the dialect that `physicalType` is written in.
    """
    found: dict[str, Any] = {"logicalType": _logical(kind, shown), "physicalType": _physical(shown, dialect)}
    if options := _options(kind, shown):
        found["logicalTypeOptions"] = options
    if found["logicalType"] == "map":
        key, value = (type_parts(part, seen, dialect=dialect) for part, seen in _sides(kind, shown))
        found["map"] = {"key": key, "value": value}
    elif found["logicalType"] == "array":
        found["items"] = _items(kind, shown, dialect)
    elif found["logicalType"] == "object":
        fields = _fields(kind)
        found["properties"] = [
            {"name": shown.field(i).name, **type_parts(part, shown.field(i).type, dialect=dialect)}
            for i, part in enumerate(fields)
        ]
    return found


def _physical(shown: pa.DataType, dialect: str) -> str:
    text = type_text(shown)
    return text if dialect == "duckdb" else exp.DataType.build(text, dialect="duckdb").sql(dialect=dialect)


def _logical(kind: LogicalType, shown: pa.DataType) -> str:
    if isinstance(kind, VectorOf) and shown.value_type in _VECTOR_ELEMENTS:
        return "vector"
    checks = (
        (pa.types.is_map, "map"),
        (pa.types.is_list, "array"),
        (pa.types.is_struct, "object"),
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "integer"),
        (pa.types.is_floating, "number"),
        (pa.types.is_decimal, "number"),
        (pa.types.is_timestamp, "timestamp"),
        (pa.types.is_date, "date"),
    )
    return next((name for is_one, name in checks if is_one(shown)), "string")


def _options(kind: LogicalType, shown: pa.DataType) -> dict[str, Any]:
    if isinstance(kind, VectorOf):
        element = _VECTOR_ELEMENTS.get(shown.value_type)
        return {"dimensions": kind.size, "elementType": element} if element else {}
    if pa.types.is_integer(shown):
        return {"format": f"i{shown.bit_width}"}
    if pa.types.is_floating(shown):
        return {"format": f"f{shown.bit_width}"}
    if pa.types.is_timestamp(shown):
        return {"timezone": shown.tz is not None}
    return {"format": _FORMATS[kind.kind]} if isinstance(kind, Scalar) and kind.kind in _FORMATS else {}


def _sides(kind: LogicalType, shown: pa.DataType) -> tuple[tuple[LogicalType, pa.DataType], ...]:
    assert isinstance(kind, MapOf)
    if pa.types.is_map(shown):
        return ((kind.key, shown.key_type), (kind.value, shown.item_type))
    return ((kind.key, shown.value_type.field("key").type), (kind.value, shown.value_type.field("value").type))


def _items(kind: LogicalType, shown: pa.DataType, dialect: str) -> dict[str, Any]:
    match kind:
        case ListOf() | SetOf() | VectorOf():
            return type_parts(kind.element, shown.value_type, dialect=dialect)
        case MapOf():  # keys that no engine's map can hold: an array of entries
            sides = zip(("key", "value"), _sides(kind, shown), strict=True)
            parts = [{"name": name, **type_parts(part, seen, dialect=dialect)} for name, (part, seen) in sides]
            return {"logicalType": "object", "physicalType": _physical(shown.value_type, dialect), "properties": parts}
    raise TypeError(f"{kind} has no items")


def _fields(kind: LogicalType) -> tuple[LogicalType, ...]:
    match kind:
        case TupleOf():
            return kind.fields
        case Udt():
            return tuple(part for _, part in kind.fields)
    raise TypeError(f"{kind} has no fields")
