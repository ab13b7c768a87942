"""The canonical events relation, the layout of raw and state tables: one row per fact.

==============  =====================================================================================
column          meaning
==============  =====================================================================================
`_kind`         row, static, partition, range or table (`facts.FactKind`)
`<key column>`  by `physical_name`; clustering columns null but for row facts
`_key_<key>`    its comparable, where SQL's `=` and `<` on the value are not Cassandra's (K1, K2)
`_bytes_<key>`  its serialized bytes, where an engine's value loses something (float, double, nested types)
`_live`         struct(written, rank), null without a row marker
`_deleted`      struct(written, at): row, partition, range or table deletion, by `_kind`
`_from`, `_to`  struct(size, inclusive, <clustering…>): bounds of a range, `size` columns long
`<column>`      simple: struct(written, rank, value[, bytes]), null when absent
                multi-cell: struct(deletion, cells): an array of
                struct(path[, key[, path_bytes]], written, rank[, value[, bytes]]),
                for a user type a struct of one such cell a field
`_origin`       struct(node, segment, position);  `_landed_at` µs
==============  =====================================================================================

`written` is BIGINT µs or DECIMAL(38, 0) (`formats.base.WriteOrder`). `rank` packs ttl, expiry and deletion
(`rules.cells.rank`), so that two integers and a value decide everything. Within a cell only `written` and
`rank` are never null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdc_views.formats.base import WriteOrder
from cdc_views.model.naming import KIND, bound_name, bytes_name, key_name, physical_name
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import (
    ListOf,
    LogicalType,
    MapOf,
    SetOf,
    Udt,
    carries_comparable,
    carries_order_bytes,
    reads_from_bytes,
)
from cdc_views.rules.cells import Cell, Deletion, rank
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.codec.physical import arrow_type, to_physical
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Elements, Fact
from cdc_views.rules.oracle import path_type

STATE_LAYOUT = 2  # in the descriptions of state tables; 2 has deletion vectors
LAYOUT_VERSION = 1  # in the descriptions of raw tables; a newer one is refused, a rebuild migrates an older one


@dataclass(frozen=True, slots=True)
class Relation:
    """The canonical relation of one table in one write order.

    `is_positioned`: each event holds its position in the source's log (`RawFormat.is_positioned`).
    """

    schema: TableSchema
    order: WriteOrder = WriteOrder.MICROS
    is_positioned: bool = False

    @property
    def shown(self) -> TableSchema:
        """The schema with the types that views show; a view reads a column of another type from the same stored values."""
        return self.schema

    @property
    def is_whole_row(self) -> bool:
        """Whether an event is a whole row (rule S1): a row exists iff its marker does, and a truncate may delete all (S6)."""
        return self.order is WriteOrder.LOG_POSITION

    @property
    def has_unique_writes(self) -> bool:
        """Whether write times are positions, so that only copies of one event tie, and any of them may win (rule S3)."""
        return self.is_whole_row and self.is_positioned

    @property
    def written(self) -> pa.DataType:
        """Arrow type of write times."""
        return pa.int64() if self.order is WriteOrder.MICROS else pa.decimal128(38, 0)

    def arrow_schema(self) -> pa.Schema:
        """Return the columns, in the order of the module's table."""
        fields = [pa.field(KIND, pa.string())]
        for column in self.schema.row_key:
            fields.append(pa.field(physical_name(column.name), arrow_type(column.type)))
            if carries_comparable(column.type):
                fields.append(pa.field(key_name(column.name), pa.binary()))
            if reads_from_bytes(column.type):
                fields.append(pa.field(bytes_name(column.name), pa.binary()))
        fields.append(pa.field("_live", pa.struct([("written", self.written), ("rank", pa.int64())])))
        fields.append(pa.field("_deleted", self._deletion_type()))
        if self.schema.clustering:
            fields += [pa.field(name, self._bound_type()) for name in ("_from", "_to")]
        for column in self.schema.statics + self.schema.regulars:
            fields.append(pa.field(physical_name(column.name), self.column_type(column.type)))
        origin = pa.struct([("node", pa.string()), ("segment", pa.string()), ("position", pa.int64())])
        return pa.schema([*fields, pa.field("_origin", origin), pa.field("_landed_at", pa.timestamp("us", tz="UTC"))])

    def _deletion_type(self) -> pa.DataType:
        return pa.struct([("written", self.written), ("at", pa.int64())])

    def _bound_type(self) -> pa.DataType:
        parts = [pa.field("size", pa.int8()), pa.field("inclusive", pa.bool_())]
        for column in self.schema.clustering:
            kind = pa.binary() if carries_comparable(column.type) else arrow_type(column.type)
            parts.append(pa.field(bound_name(column.name), kind))
        return pa.struct(parts)

    def column_type(self, kind: LogicalType) -> pa.DataType:
        """Return the Arrow type of a non-key column of `kind`."""
        match kind:
            case _ if not kind.is_multicell:
                return self._cell_type(kind)
            case ListOf() | SetOf() | MapOf():
                cells = pa.list_(pa.struct(self._element_fields(kind)))
            case Udt():
                cells = pa.struct([pa.field(physical_name(n), self._cell_type(f)) for n, f in kind.fields])
        return pa.struct([pa.field("deletion", self._deletion_type()), pa.field("cells", cells)])

    def _cell_type(self, kind: LogicalType) -> pa.DataType:
        types = {"written": self.written, "rank": pa.int64(), "value": arrow_type(kind), "bytes": pa.binary()}
        return pa.struct([pa.field(name, types[name]) for name in cell_fields(kind)])

    def _element_fields(self, kind: LogicalType) -> list[pa.Field]:
        path = path_type(kind)
        fields = [pa.field("path", arrow_type(path))]
        if carries_comparable(path):
            fields.append(pa.field("key", pa.binary()))
        if reads_from_bytes(path):
            fields.append(pa.field("path_bytes", pa.binary()))
        value = element_value_type(kind)
        if value is None:
            return [*fields, pa.field("written", self.written), pa.field("rank", pa.int64())]
        return fields + list(self._cell_type(value))

    def rows(self, facts: Iterable[Fact], *, landed_at: int) -> pa.Table:
        """Return the Arrow rows of `facts`, in order; `landed_at` is µs since the epoch."""
        records = [self._record(fact, landed_at) for fact in facts]
        return pa.Table.from_pylist(records, schema=self.arrow_schema())

    def _record(self, fact: Fact, landed_at: int) -> dict[str, Any]:
        record: dict[str, Any] = {KIND: fact.kind.value, "_landed_at": landed_at}
        record["_origin"] = {"node": fact.origin.node, "segment": fact.origin.segment, "position": fact.origin.position}
        for column, value in zip(self.schema.row_key, fact.partition + fact.clustering, strict=False):
            record[physical_name(column.name)] = to_physical(column.type, value)
            if carries_comparable(column.type):
                record[key_name(column.name)] = identity(column, value)
            if reads_from_bytes(column.type):
                record[bytes_name(column.name)] = serialize(column.type, value)
        if fact.liveness is not None:
            record["_live"] = {"written": fact.liveness.written, "rank": rank(fact.liveness)}
        record["_deleted"] = _deletion(fact.deletion)
        if fact.start is not None and fact.end is not None:
            record["_from"], record["_to"] = self._bound(fact.start), self._bound(fact.end)
        for name, cell in fact.cells.items():
            record[physical_name(name)] = _cell(self.schema.column(name).type, cell)
        for name, elements in fact.elements.items():
            record[physical_name(name)] = _elements(self.schema.column(name).type, elements)
        return record

    def _bound(self, bound: Bound) -> dict[str, Any]:
        parts: dict[str, Any] = {"size": len(bound.prefix), "inclusive": bound.inclusive}
        for column, value in zip(self.schema.clustering, bound.prefix, strict=False):
            ordered = carries_comparable(column.type)
            parts[bound_name(column.name)] = comparable(column.type, value) if ordered else to_physical(column.type, value)
        return parts


@dataclass(frozen=True, slots=True)
class RawTable:
    """A raw Delta table in the canonical layout: its location, and the meaning of its columns."""

    location: str
    relation: Relation


def element_value_type(kind: LogicalType) -> LogicalType | None:
    """Return the type of a list's or map's element values; None for a set, whose elements have only paths."""
    match kind:
        case ListOf():
            return kind.element
        case MapOf():
            return kind.value
    return None


def cell_fields(kind: LogicalType) -> tuple[str, ...]:
    """Return the names of the fields of a stored cell with a value of `kind`, in order."""
    return ("written", "rank", "value", "bytes") if carries_order_bytes(kind) else ("written", "rank", "value")


def identity(column: Column, value: Any) -> bytes:
    """Return the comparable stored beside a key column's value (rules K1, K2)."""
    return (partition_identity if column.role is Role.PARTITION else comparable)(column.type, value)


def _deletion(deletion: Deletion | None) -> dict[str, int] | None:
    return None if deletion is None else {"written": deletion.written, "at": deletion.deleted_at}


def _cell(kind: LogicalType | None, cell: Cell) -> dict[str, Any]:
    record: dict[str, Any] = {"written": cell.written, "rank": rank(cell)}
    if kind is not None:
        record["value"] = to_physical(kind, cell.value)
        if carries_order_bytes(kind):
            record["bytes"] = cell.order_bytes
    return record


def _elements(kind: LogicalType, elements: Elements) -> dict[str, Any]:
    if isinstance(kind, Udt):
        # the type's own names know under which name a renamed field is stored; a path is only text
        stored = {name: physical_name(name) for name, _ in kind.fields}
        fields = {stored[path]: _cell(kind.field_type(path), cell) for path, cell in elements.cells}
        return {"deletion": _deletion(elements.deletion), "cells": fields or None}
    path_kind, value_kind = path_type(kind), element_value_type(kind)
    cells = []
    for path, cell in elements.cells:
        record = {"path": to_physical(path_kind, path), **_cell(value_kind, cell)}
        if carries_comparable(path_kind):
            record["key"] = comparable(path_kind, path)
        if reads_from_bytes(path_kind):
            record["path_bytes"] = serialize(path_kind, path)
        cells.append(record)
    return {"deletion": _deletion(elements.deletion), "cells": cells or None}
