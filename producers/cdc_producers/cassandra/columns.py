"""Turns batches from the Java part into rows of a raw table. Its arrays are Arrow's, and most values stay as they are.

Java knows no types: it sends integers and serialized values. `cdc_views.rules.codec` alone defines the types; this module
applies it once to each distinct value of a batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.errors import MalformedEventError
from cdc_views.landing.blocks import DecodedRows
from cdc_views.model.naming import KIND, bound_name, bytes_name, key_name, physical_name
from cdc_views.model.schema import Column, Role
from cdc_views.model.types import (
    Kind,
    LogicalType,
    Scalar,
    Udt,
    carries_comparable,
    carries_order_bytes,
    is_text,
    reads_from_bytes,
)
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.codec.physical import arrow_type, to_physical
from cdc_views.rules.codec.serialized import deserialize
from cdc_views.rules.facts import FactKind
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import Relation, element_value_type

_LEAVES = {
    Kind.TINYINT: ("i1", pa.int8()),
    Kind.SMALLINT: ("i2", pa.int16()),
    Kind.INT: ("i4", pa.int32()),
    Kind.BIGINT: ("i8", pa.int64()),
    Kind.TIMESTAMP: ("i8", pa.int64()),
    Kind.TIME: ("i8", pa.int64()),
    Kind.DATE: ("date", pa.int32()),
    Kind.BOOLEAN: ("bool", pa.bool_()),
}
"""Types whose physical form is the serialized integer; others stay serialized."""
_WIDTHS = {"bytes": pa.binary(), **dict(_LEAVES.values())}
_HEAD = struct.Struct(">iiiii")
_SIZE = struct.Struct(">i")
_KINDS = (FactKind.ROW, FactKind.STATIC, FactKind.PARTITION, FactKind.RANGE)
_LONGS = {"struct": ["i8", "i8"]}

Layout = Any
"""JSON: see `jvm/Vector.java`."""


@dataclass(frozen=True)
class ColumnPlan:
    """How rows of one relation come from the Java part; events on list elements older than `lists_since` come as JSON lines."""

    relation: Relation
    node: str
    lists_since: int = 0
    _transport: pa.DataType = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_transport", _arrow(self.layout))

    @property
    def layout(self) -> Layout:
        """The arrays that Java fills, in order."""
        schema = self.relation.schema
        clustering = [_leaf(column.type) for column in schema.clustering]
        parts: list[Layout] = ["i1", "i4", *(_leaf(column.type) for column in schema.partition), *clustering, _LONGS, _LONGS]
        if clustering:
            parts += [{"struct": ["i1", "bool", *clustering]}] * 2
        return {"struct": parts + [_column(column.type) for column in self._columns]}

    @property
    def description(self) -> dict[str, Any]:
        """Java's instructions: the layout, and the place of each column."""
        columns = [
            {"name": c.name, "fields": [name for name, _ in c.type.fields] if isinstance(c.type, Udt) else []}
            for c in self._columns
        ]
        schema = self.relation.schema
        sizes = {"partition": len(schema.partition), "clustering": len(schema.clustering)}
        return {"layout": self.layout, "columns": columns, "lists_since": self.lists_since, **sizes}

    @property
    def _columns(self) -> tuple[Column, ...]:
        return self.relation.schema.statics + self.relation.schema.regulars

    def rows(self, payload: bytes, segment: int) -> tuple[DecodedRows, int]:
        """Return a frame's rows and the position of its last event; raises `MalformedEventError` for a value of another type."""
        _, count, events, first, last = _HEAD.unpack_from(payload)
        found = _array(self._transport, count, _buffers(payload, _HEAD.size))
        try:
            arrays = self._arrays(found, segment)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise MalformedEventError(f"a value does not fit the raw table: {error}") from error
        schema = self.relation.arrow_schema()
        table = pa.table([arrays[name] for name in schema.names[:-1]], schema=pa.schema([*schema][:-1]))
        return DecodedRows(self.relation, table, events, first), last

    def _arrays(self, found: pa.StructArray, segment: int) -> dict[str, pa.Array]:
        parts = iter(found.flatten())
        kinds, positions = next(parts), next(parts)
        made = {KIND: pa.DictionaryArray.from_arrays(kinds, [kind.value for kind in _KINDS]).cast(pa.string())}
        schema = self.relation.schema
        for column in schema.row_key:
            made.update(_key(column, next(parts)))
        made["_live"] = _named(next(parts), "written", "rank")
        made["_deleted"] = _named(next(parts), "written", "at")
        if schema.clustering:
            made["_from"], made["_to"] = (_bound(next(parts), schema.clustering) for _ in range(2))
        for column in self._columns:
            made[physical_name(column.name)] = _values(column.type, next(parts))
        origin = [pa.repeat(self.node, len(found)), pa.repeat(str(segment), len(found)), positions.cast(pa.int64())]
        made["_origin"] = pa.StructArray.from_arrays(origin, ["node", "segment", "position"])
        return made


def _leaf(kind: LogicalType) -> Layout:
    return _LEAVES[kind.kind][0] if isinstance(kind, Scalar) and kind.kind in _LEAVES else "bytes"


def _column(kind: LogicalType) -> Layout:
    if not kind.is_multicell:
        return {"struct": ["i8", "i8", _leaf(kind)]}
    if isinstance(kind, Udt):
        return {"struct": [_LONGS, {"struct": [_column(part) for _, part in kind.fields]}]}
    value = element_value_type(kind)
    element = [_leaf(path_type(kind)), "i8", "i8", *([] if value is None else [_leaf(value)])]
    return {"struct": [_LONGS, {"list": {"struct": element}}]}


def _arrow(layout: Layout) -> pa.DataType:
    if isinstance(layout, str):
        return _WIDTHS[layout]
    if "list" in layout:
        return pa.list_(_arrow(layout["list"]))
    return pa.struct([pa.field(str(i), _arrow(part)) for i, part in enumerate(layout["struct"])])


def _buffers(payload: bytes, at: int) -> Iterator[pa.Buffer]:
    whole = pa.py_buffer(payload)
    while at < len(payload):
        (size,) = _SIZE.unpack_from(payload, at)
        at += _SIZE.size
        yield whole.slice(at, size)
        at += size


def _array(kind: pa.DataType, count: int, buffers: Iterator[pa.Buffer]) -> pa.Array:
    valid = next(buffers)
    if pa.types.is_struct(kind):
        children = [_array(part.type, count, buffers) for part in kind]
        return pa.Array.from_buffers(kind, count, [valid], children=children)
    if pa.types.is_list(kind):
        ends = next(buffers)
        length = int.from_bytes(ends.slice(4 * count, 4).to_pybytes(), "little")
        return pa.Array.from_buffers(kind, count, [valid, ends], children=[_array(kind.value_type, length, buffers)])
    if pa.types.is_binary(kind):
        return pa.Array.from_buffers(kind, count, [valid, next(buffers), next(buffers)])
    return pa.Array.from_buffers(kind, count, [valid, next(buffers)])


def _each(found: pa.Array, kind: pa.DataType, convert: Callable[[bytes], Any]) -> pa.Array:
    """Convert each distinct value once; null stays null."""
    encoded = found.dictionary_encode()
    return pa.array([convert(value) for value in encoded.dictionary.to_pylist()], kind).take(encoded.indices)


def _physical(kind: LogicalType, found: pa.Array) -> pa.Array:
    if not pa.types.is_binary(found.type):
        return found
    if isinstance(kind, Scalar) and kind.kind is Kind.BLOB:
        return found
    if is_text(kind):
        return found.cast(pa.string())
    return _each(found, arrow_type(kind), lambda data: to_physical(kind, deserialize(kind, data)))


def _key(column: Column, found: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    kind = column.type
    yield physical_name(column.name), _physical(kind, found)
    if carries_comparable(kind):
        identity = partition_identity if column.role is Role.PARTITION else comparable
        yield key_name(column.name), _each(found, pa.binary(), lambda data: identity(kind, deserialize(kind, data)))
    if reads_from_bytes(kind):
        yield bytes_name(column.name), found


def _bound(found: pa.StructArray, clustering: tuple[Column, ...]) -> pa.Array:
    size, inclusive, *prefix = _inside(found)
    arrays, names = [size, inclusive], ["size", "inclusive"]
    for column, part in zip(clustering, prefix, strict=True):
        arrays.append(_comparable(column.type, part) if carries_comparable(column.type) else _physical(column.type, part))
        names.append(bound_name(column.name))
    return pa.StructArray.from_arrays(arrays, names, mask=found.is_null())


def _comparable(kind: LogicalType, found: pa.Array) -> pa.Array:
    return _each(found, pa.binary(), lambda data: comparable(kind, deserialize(kind, data)))


def _values(kind: LogicalType, found: pa.StructArray) -> pa.Array:
    if not kind.is_multicell:
        return _cells(kind, found)
    deletion, inside = _inside(found)
    if isinstance(kind, Udt):
        fields = zip(kind.fields, _inside(inside), strict=True)
        cells = _struct(inside, {physical_name(name): _cells(part, cells) for (name, part), cells in fields})
    else:
        elements = _elements(kind, inside.values)
        cells = pa.ListArray.from_buffers(pa.list_(elements.type), len(inside), inside.buffers()[:2], children=[elements])
    return _struct(found, {"deletion": _named(deletion, "written", "at"), "cells": cells})


def _elements(kind: LogicalType, found: pa.StructArray) -> pa.Array:
    path, written, rank, *value = _inside(found)
    of_path, of_value = path_type(kind), element_value_type(kind)
    made = {"path": _physical(of_path, path)}
    if carries_comparable(of_path):
        made["key"] = _comparable(of_path, path)
    if reads_from_bytes(of_path):
        made["path_bytes"] = path
    made |= {"written": written, "rank": rank}
    if of_value is not None:
        made |= _value(of_value, value[0])
    return _struct(found, made)


def _cells(kind: LogicalType, found: pa.StructArray) -> pa.Array:
    written, rank, value = _inside(found)
    return _struct(found, {"written": written, "rank": rank, **_value(kind, value)})


def _value(kind: LogicalType, found: pa.Array) -> dict[str, pa.Array]:
    made = {"value": _physical(kind, found)}
    if carries_order_bytes(kind):
        made["bytes"] = pc.fill_null(found, b"")  # a tombstone's value
    return made


def _inside(found: pa.StructArray) -> list[pa.Array]:
    """Return the fields of structs as they are; Java has already written null fields for null structs."""
    return [found.field(i) for i in range(found.type.num_fields)]


def _struct(like: pa.StructArray, parts: dict[str, pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(list(parts.values()), list(parts), mask=like.is_null())


def _named(found: pa.StructArray, *names: str) -> pa.Array:
    return _struct(found, dict(zip(names, _inside(found), strict=True)))
