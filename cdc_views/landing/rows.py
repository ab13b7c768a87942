"""Rows that a source has made by itself of many events at once, in place of events to be decoded one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import EMPTY, LogicalType, Udt
from cdc_views.rules.cells import Cell
from cdc_views.rules.codec.serialized import deserialize, serialize
from cdc_views.rules.facts import Bound, Elements, Fact
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import Relation, element_value_type
from cdc_views.storage.relation_read import facts_of

_LANDED_AT = "_landed_at"
_ORIGIN = "_origin"
_Types = tuple[LogicalType, LogicalType]
"""Of a column by the schema that decoded it, and by the later one."""


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows of consecutive events of one segment of one table's log.

    Attributes:
        relation: What the columns mean; the schema may have changed by the time they land.
        table: The rows in order, with the columns of `relation` but `_landed_at`.
        events: How many events they are of.
        first: `_origin.position` of the first event.
    """

    relation: Relation
    table: pa.Table
    events: int
    first: int

    def __len__(self) -> int:
        """Bytes it takes, about."""
        return int(self.table.nbytes)

    def after(self, position: int) -> DecodedRows:
        """Return the rows of the events after a position of the segment."""
        if position < self.first:
            return self
        positions = pc.struct_field(self.table[_ORIGIN], "position")
        table = self.table.filter(pc.greater(positions, position))
        left = pc.struct_field(table[_ORIGIN], "position")
        return replace(self, table=table, events=pc.count_distinct(left).as_py(), first=pc.min(left).as_py() or 0)

    def facts(self, schema: TableSchema) -> list[Fact]:
        """Return the facts of the rows, as far as columns are still of a schema: a dropped column's cells never show (W6).

        Values are those of the schema's types: a user type may have gained fields meanwhile, which are null.
        """
        then, now = self.relation.schema, {column.name: column.type for column in schema.columns}
        kinds = {column.name: (column.type, now[column.name]) for column in then.columns if column.name in now}
        partition, clustering = ([kinds[column.name] for column in key] for key in (then.partition, then.clustering))
        found = facts_of(self.relation, self.table)
        return [_read_as(fact, kinds, partition=partition, clustering=clustering) for fact in found]

    def stamped(self, landed_at: int) -> pa.Table:
        """Return the rows with their landing time (µs)."""
        kind = pa.timestamp("us", tz="UTC")
        return self.table.append_column(_LANDED_AT, pa.repeat(pa.scalar(landed_at, kind), self.table.num_rows))


def _read_as(fact: Fact, kinds: Mapping[str, _Types], *, partition: Sequence[_Types], clustering: Sequence[_Types]) -> Fact:
    """A fact that was decoded by one schema, by a later one: the types of its columns, and of its keys."""
    return replace(
        fact,
        partition=_values(partition, fact.partition),
        clustering=_values(clustering, fact.clustering),
        start=_bound(clustering, fact.start),
        end=_bound(clustering, fact.end),
        cells={name: _cell(*kinds[name], cell) for name, cell in fact.cells.items() if name in kinds},
        elements={name: _elements(*kinds[name], found) for name, found in fact.elements.items() if name in kinds},
    )


def _values(kinds: Sequence[_Types], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_value(*kind, value) for kind, value in zip(kinds, values, strict=False))


def _bound(kinds: Sequence[_Types], bound: Bound | None) -> Bound | None:
    return None if bound is None else replace(bound, prefix=_values(kinds, bound.prefix))


def _value(then: LogicalType, now: LogicalType, value: Any) -> Any:
    if then == now or value is None or value is EMPTY:
        return value
    return deserialize(now, serialize(then, value))


def _cell(then: LogicalType, now: LogicalType, cell: Cell) -> Cell:
    return cell if then == now else replace(cell, value=_value(then, now, cell.value))


def _elements(then: LogicalType, now: LogicalType, found: Elements) -> Elements:
    if then == now:
        return found
    if isinstance(then, Udt) and isinstance(now, Udt):
        fields = {name: (kind, now.field_type(name)) for name, kind in then.fields}
        return replace(found, cells=tuple((name, _cell_of(*fields[name], cell)) for name, cell in found.cells))
    paths, values = (path_type(then), path_type(now)), (element_value_type(then), element_value_type(now))
    return replace(found, cells=tuple((_value(*paths, path), _cell_of(*values, cell)) for path, cell in found.cells))


def _cell_of(then: LogicalType | None, now: LogicalType | None, cell: Cell) -> Cell:
    """A cell inside a column; a set's has no value of a type, and a field that is gone keeps its own."""
    return cell if then is None or now is None else _cell(then, now, cell)
