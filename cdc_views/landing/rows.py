"""Rows that a source has made by itself of many events at once, in place of events to be decoded one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact
from cdc_views.storage.relation import Relation
from cdc_views.storage.relation_read import facts_of

_LANDED_AT = "_landed_at"
_ORIGIN = "_origin"


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
        return list(facts_of(replace(self.relation, schema=schema), self.table))

    def stamped(self, landed_at: int) -> pa.Table:
        """Return the rows with their landing time (µs)."""
        kind = pa.timestamp("us", tz="UTC")
        return self.table.append_column(_LANDED_AT, pa.repeat(pa.scalar(landed_at, kind), self.table.num_rows))
