"""Reads facts from the rows of a raw table, the inverse of `Relation.rows`, and makes the filter of a key's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from cdc_views.model.naming import KIND, bound_name, bytes_name, key_name, physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import EMPTY, LogicalType, Udt, carries_comparable, carries_order_bytes, reads_from_bytes
from cdc_views.rules.cells import Cell, Deletion, Liveness, unrank
from cdc_views.rules.codec.comparable import uncomparable
from cdc_views.rules.codec.physical import from_physical, to_physical
from cdc_views.rules.codec.serialized import deserialize, serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind, Origin
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import Relation, element_value_type, identity

Record = Mapping[str, Any]  # a row of the raw table, or a struct in it, as Python values of Arrow


def facts_of(relation: Relation, table: pa.Table) -> Iterator[Fact]:
    """Yield the fact of each row, in order; columns that `table` lacks are absent from every fact."""
    for batch in table.to_batches(max_chunksize=10_000):
        for record in batch.to_pylist():
            yield _fact(relation, record)


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """Which raw rows concern a key: truncates, its partition's deletions and statics, and rows.

    `partition` and `clustering` are stored values by column (`stored_key`); with `clustering` None no row's facts.
    `has_all_rows`: every row's.
    """

    partition: Mapping[str, Any]
    clustering: Mapping[str, Any] | None = None
    has_all_rows: bool = False

    @classmethod
    def of_row(cls, schema: TableSchema, partition: tuple[Any, ...], clustering: tuple[Any, ...] | None) -> KeyFacts:
        """Return what affects a row; `clustering` None: the partition's static row."""
        own = None if clustering is None else stored_key(schema.clustering, clustering)
        return cls(stored_key(schema.partition, partition), own)

    @classmethod
    def of_partition(cls, schema: TableSchema, partition: tuple[Any, ...]) -> KeyFacts:
        """Return what affects any row of a partition."""
        return cls(stored_key(schema.partition, partition), has_all_rows=True)

    @property
    def filter(self) -> ds.Expression:
        """The condition of the rows."""
        kind, mine = ds.field(KIND), all_equal(self.partition)
        if not self.has_all_rows:
            of_key = kind.isin(OF_PARTITION)
            if self.clustering is not None:
                of_key = of_key | ((kind == FactKind.ROW.value) & all_equal(self.clustering))
            mine = mine & of_key
        return (kind == FactKind.TABLE.value) | mine


OF_PARTITION = (FactKind.PARTITION.value, FactKind.STATIC.value, FactKind.RANGE.value)
"""Kinds of facts that may affect each row of a partition."""


def stored_key(columns: tuple[Column, ...], values: tuple[Any, ...]) -> dict[str, Any]:
    """Return, by name, the stored values of the columns that decide whether key columns equal these values."""
    return dict(
        (key_name(column.name), identity(column, value))
        if carries_comparable(column.type)
        else (physical_name(column.name), to_physical(column.type, value))
        for column, value in zip(columns, values, strict=True)
    )


def all_equal(stored: Mapping[str, Any]) -> ds.Expression:
    """Return the condition that columns have these values. It is never null, so that it can be negated."""
    condition = ds.scalar(True)  # noqa: FBT003  # a literal of Arrow's
    for name, value in stored.items():
        column = ds.field(name)
        condition &= column.is_null() if value is None else (column == value) & column.is_valid()
    return condition


def _fact(relation: Relation, record: Record) -> Fact:
    schema, kind = relation.schema, FactKind(record[KIND])
    simple, elements = _columns(relation, record)
    start, end = record.get("_from"), record.get("_to")
    return Fact(
        kind,
        () if kind is FactKind.TABLE else key_of(schema.partition, record),
        clustering=key_of(schema.clustering, record) if kind is FactKind.ROW else (),
        liveness=_liveness(record["_live"]),
        deletion=_deletion(record["_deleted"]),
        start=None if start is None else bound_of(relation, start),
        end=None if end is None else bound_of(relation, end),
        cells=simple,
        elements=elements,
        origin=Origin(**(record["_origin"] or {})),  # states do not keep origins
    )


def key_of(columns: tuple[Column, ...], record: Record) -> tuple[Any, ...]:
    """Return the native values of key columns."""
    return tuple(
        deserialize(column.type, record[bytes_name(column.name)])
        if reads_from_bytes(column.type)
        else _native(column.type, record[physical_name(column.name)])
        for column in columns
    )


def _native(kind: LogicalType, stored: Any) -> Any:
    """Return a present value; stored null is the value of 0 bytes."""
    return EMPTY if stored is None else from_physical(kind, stored)


def _columns(relation: Relation, record: Record) -> tuple[dict[str, Cell], dict[str, Elements]]:
    simple: dict[str, Cell] = {}
    elements: dict[str, Elements] = {}
    for column in relation.schema.statics + relation.schema.regulars:
        stored = record.get(physical_name(column.name))
        if stored is None:
            continue
        if column.type.is_multicell:
            elements[column.name] = _elements(column.type, stored)
        else:
            simple[column.name] = _cell(column.type, stored)
    return simple, elements


def _elements(kind: LogicalType, stored: Record) -> Elements:
    cells: list[tuple[Any, Cell]] = []
    if isinstance(kind, Udt):
        fields = stored["cells"] or {}
        present = [(name, field, fields.get(physical_name(name))) for name, field in kind.fields]
        cells = [(name, _cell(field, cell)) for name, field, cell in present if cell is not None]
    else:
        path, value = path_type(kind), element_value_type(kind)
        cells = [(path_of(path, cell), _cell(value, cell)) for cell in stored["cells"] or ()]
    return Elements(_deletion(stored["deletion"]), tuple(cells))


def path_of(kind: LogicalType, cell: Record) -> Any:
    """Return the native path of an element, whose paths are of `kind`."""
    return deserialize(kind, cell["path_bytes"]) if reads_from_bytes(kind) else _native(kind, cell["path"])


def _cell(kind: LogicalType | None, stored: Record) -> Cell:
    """Return one cell; `kind` is None for a set's elements, which have no value."""
    ttl, expires_at, deleted_at = unrank(stored["rank"])
    written = int(stored["written"])
    if deleted_at is not None:
        return Cell(written, deleted_at=deleted_at)
    if kind is None:
        return Cell(written, b"", b"", ttl, expires_at)
    if carries_order_bytes(kind):
        given = bytes(stored["bytes"] or b"")
        return Cell(written, deserialize(kind, given), given, ttl, expires_at)
    value = _native(kind, stored["value"])
    return Cell(written, value, serialize(kind, value), ttl, expires_at)


def _liveness(stored: Record | None) -> Liveness | None:
    if stored is None:
        return None
    ttl, expires_at, _ = unrank(stored["rank"])
    return Liveness(int(stored["written"]), ttl, expires_at)


def _deletion(stored: Record | None) -> Deletion | None:
    return None if stored is None else Deletion(int(stored["written"]), stored["at"])


def bound_of(relation: Relation, stored: Record) -> Bound:
    """Return one end of a range."""
    prefix = []
    for column in relation.schema.clustering[: stored["size"]]:
        value = stored[bound_name(column.name)]
        decoded = uncomparable(column.type, value) if carries_comparable(column.type) else _native(column.type, value)
        prefix.append(decoded)
    return Bound(tuple(prefix), stored["inclusive"])
