"""The places of cell facts in a raw table: one per column, field, row marker and deletion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import LogicalType, Udt, carries_comparable, carries_order_bytes, reads_from_bytes
from cdc_views.plan import names
from cdc_views.plan.order import BYTES, RANK, VALUE, WRITTEN
from cdc_views.rules.facts import FactKind
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import element_value_type

DELETED_AT, DELETION, CELLS, PATH, PATH_KEY, PATH_BYTES = "at", "deletion", "cells", "path", "key", "path_bytes"


@dataclass(frozen=True, slots=True)
class CellStructs:
    """The structs of one place in a raw table; each that is not null is a copy of a cell fact.

    `steps` lead from the raw column to the struct, or to an array of such structs. `identity` fields, with the key, identify a
    cell fact. Copies may spell `spelled` fields differently (a path with equal comparable); the least counts. `carried` fields
    are equal in equal facts. `column` is the cells' column; None for row markers and deletions.
    """

    kind: FactKind
    steps: tuple[str, ...]
    identity: tuple[str, ...]
    spelled: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    column: Column | None = None
    field: str | None = None
    is_array: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields of the struct that statements read."""
        return self.identity + self.spelled + self.carried

    def keys(self, schema: TableSchema) -> tuple[str, ...]:
        """Return the raw columns that identify the row, partition or range of a fact (rule K1), with a range's bounds."""
        columns = schema.row_key if self.kind is FactKind.ROW else schema.partition
        bounds = (names.FROM, names.TO) if self.kind is FactKind.RANGE else ()
        return tuple(names.identity(c) for c in columns) + bounds

    def shown(self, schema: TableSchema) -> tuple[str, ...]:
        """Return further raw columns that show the key; copies may spell them differently, and the least counts."""
        columns = schema.row_key if self.kind is FactKind.ROW else schema.partition
        return tuple(name for c in columns for name in names.shown_as(c) if name != names.identity(c))


def places(schema: TableSchema) -> Iterator[CellStructs]:
    """Yield every place of a table: markers and deletions, then static and regular columns."""
    deletion = (WRITTEN, DELETED_AT)
    yield CellStructs(FactKind.ROW, (names.LIVE,), (WRITTEN, RANK))
    yield CellStructs(FactKind.ROW, (names.DELETED,), deletion)
    yield CellStructs(FactKind.PARTITION, (names.DELETED,), deletion)
    if schema.clustering:
        yield CellStructs(FactKind.RANGE, (names.DELETED,), deletion)
    for kind, columns in ((FactKind.STATIC, schema.statics), (FactKind.ROW, schema.regulars)):
        for column in columns:
            stored = physical_name(column.name)
            if not column.type.is_multicell:
                yield _cells(kind, column, (stored,), column.type)
                continue
            yield CellStructs(kind, (stored, DELETION), deletion, column=column)
            if isinstance(column.type, Udt):
                for name, of_field in column.type.fields:
                    yield _cells(kind, column, (stored, CELLS, physical_name(name)), of_field, field=name)
            else:
                yield _elements(kind, column, (stored, CELLS))


def _cells(kind: FactKind, column: Column, steps: tuple[str, ...], value: LogicalType, field: str | None = None) -> CellStructs:
    identity, carried = _value(value)
    return CellStructs(kind, steps, (WRITTEN, RANK, *identity), carried=carried, column=column, field=field)


def _value(kind: LogicalType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields that identify a value, and the others (rule C3)."""
    return ((BYTES,), (VALUE,)) if carries_order_bytes(kind) else ((VALUE,), ())


def _elements(kind: FactKind, column: Column, steps: tuple[str, ...]) -> CellStructs:
    path, value = path_type(column.type), element_value_type(column.type)
    key, spelled = (PATH, ()) if not carries_comparable(path) else (PATH_KEY, (PATH,))
    if reads_from_bytes(path):
        spelled = (*spelled, PATH_BYTES)
    identity, carried = _value(value) if value is not None else ((), ())
    return CellStructs(kind, steps, (key, WRITTEN, RANK, *identity), spelled, carried, column, is_array=True)
