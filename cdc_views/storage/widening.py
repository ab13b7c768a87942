"""Whether the columns of a table already hold what other columns have, down to the fields of structs."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def has_columns(stored: Iterable[pa.Field], wanted: Iterable[pa.Field]) -> bool:
    """Whether `stored` has every column of `wanted`, and every field of its structs; types are not compared."""
    known = {field.name: field.type for field in stored}
    return all(field.name in known and _holds(known[field.name], field.type) for field in wanted)


def _holds(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        return has_columns(list(stored), list(wanted))
    if pa.types.is_map(stored) and pa.types.is_map(wanted):
        return _holds(stored.key_type, wanted.key_type) and _holds(stored.item_type, wanted.item_type)
    if _is_list(stored) and _is_list(wanted):
        return _holds(stored.value_type, wanted.value_type)
    return True  # raw tables refuse another type


def narrowed(fields: Iterable[pa.Field], wanted: Iterable[pa.Field]) -> list[pa.Field]:
    """Return the fields that are wanted, and of their structs the wanted fields."""
    known = {field.name: field.type for field in wanted}
    return [field.with_type(_narrowed(field.type, known[field.name])) for field in fields if field.name in known]


def _narrowed(kind: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        return pa.struct(narrowed(list(kind), list(wanted)))
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        return pa.map_(kind.key_type, _narrowed(kind.item_type, wanted.item_type))
    if _is_list(kind) and _is_list(wanted):
        return pa.list_(_narrowed(kind.value_type, wanted.value_type))
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
