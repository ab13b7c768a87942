"""Rows that a source has made by itself of many events at once, in place of events to be decoded one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.facts import Fact
from cdc_views.relation import Relation
from cdc_views.relation_read import facts_of
from cdc_views.schema import TableSchema

_LANDED_AT = "_landed_at"
_ORIGIN = "_origin"


_Part = TypeVar("_Part")


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
        """Return the facts of the rows, as far as columns are still of a schema: a dropped column's cells never show (W6)."""
        names = {column.name for column in schema.columns}
        found = facts_of(self.relation, self.table)
        return [replace(fact, cells=_of(names, fact.cells), elements=_of(names, fact.elements)) for fact in found]

    def stamped(self, landed_at: int) -> pa.Table:
        """Return the rows with their landing time (µs)."""
        kind = pa.timestamp("us", tz="UTC")
        return self.table.append_column(_LANDED_AT, pa.repeat(pa.scalar(landed_at, kind), self.table.num_rows))


def _of(names: set[str], parts: Mapping[str, _Part]) -> dict[str, _Part]:
    return {name: part for name, part in parts.items() if name in names}
