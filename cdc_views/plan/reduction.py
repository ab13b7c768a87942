"""What to reduce: which facts count, which columns, and which parts of a state hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, LogicalType, Scalar
from cdc_views.plan import names
from cdc_views.plan.expr import Call, Expr, Field, Friendly, Lit, Named, Op, both, col, when
from cdc_views.plan.nodes import CellColumn, Node, Scan
from cdc_views.plan.order import VALUE, WRITTEN
from cdc_views.plan.parts import Parts, Source
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

Payload = Callable[[LogicalType], tuple[str, ...]]
"""Which stored fields of a cell the rest of the plan reads, by the type of its value."""


def value_payload(kind: LogicalType) -> tuple[str, ...]:
    """Payload of a view: the value alone."""
    return (VALUE,)


@dataclass(frozen=True, slots=True)
class Reduction:
    """What to reduce: the columns wanted (None: all non-key columns), and which facts count.

    `landed_as_of` and `written_as_of` (µs) drop facts that landed or were written later. Whether a row exists (rule W2)
    depends on every regular column, so unwanted ones are reduced too, without their values.
    """

    relation: Relation
    wanted: frozenset[str] | None = None
    payload: Payload = value_payload
    landed_as_of: int | None = None
    written_as_of: int | None = None
    partition_where: Expr | None = None
    """A condition on stored partition columns; partitions that fail it are not read."""
    skips_unwanted: bool = False
    """Leave unwanted columns out altogether: right only where every row has a marker (rule S1)."""
    split: Parts | None = None
    """The parts of a state with a base: only keys that newer facts touch need reducing. None: all facts are in one place.

    A fact about a row touches that row, any other fact its whole partition; no newer fact is about the whole table.
    """
    rows_from: Source | None = None
    """The source of all facts about rows that need reducing; None: the raw table, or the parts that `split` names."""
    others_from: Source | None = None
    """The source of facts about more than a row; None: every part that may hold some."""
    is_whole: bool = False
    """Keep what a state needs and a view does not: deletions' server times, and cells that W6 hides (the filter
    commutes with the maximum, so that a corrected drop time needs no new state)."""

    @property
    def schema(self) -> TableSchema:
        """The table's schema."""
        return self.relation.schema

    def is_wanted(self, column: Column) -> bool:
        """Whether the result shows the column."""
        return self.wanted is None or column.name in self.wanted

    def reducible(self, columns: tuple[Column, ...]) -> list[Column]:
        """Those of `columns` whose cells are read at all."""
        return [c for c in columns if self.is_wanted(c) or not self.skips_unwanted]

    def row_keys(self) -> tuple[str, ...]:
        """Columns that identify a row."""
        return tuple(name for c in self.schema.row_key for name in names.grouping(c))

    def identities(self, kind: FactKind) -> tuple[str, ...]:
        """Columns that identify the owner of a `kind` fact: its row or its partition. A partition's are never null."""
        columns = self.schema.row_key if kind is FactKind.ROW else self.schema.partition
        return tuple(names.identity(c) for c in columns)

    def partition_keys(self) -> tuple[str, ...]:
        """Columns that identify a partition."""
        return tuple(name for c in self.schema.partition for name in names.grouping(c))

    def facts(self, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None = None) -> Node:
        """Return the facts of some kinds; of facts about rows, only those that need reducing. `columns` hold their keys."""
        wanted = tuple(kinds)
        if self.rows_from is not None and FactKind.ROW in wanted:
            return self.scan(name, kinds=wanted, columns=columns, where=where, source=self.rows_from)
        if self.split is None or FactKind.ROW not in wanted:
            source = self.others_from or (Source.ALL if self.split is None else Source.OTHERS)
            return self.scan(name, kinds=wanted, columns=columns, where=where, source=source)
        from cdc_views.plan.split import touched_facts

        return touched_facts(self, name, kinds=wanted, columns=columns, where=where)

    def scan(
        self, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None = None, source: Source = Source.ALL
    ) -> Scan:
        """Return the facts of some kinds in one part."""
        wanted = tuple(kinds)
        kind_is: Expr | None = None
        if not source.is_plain or FactKind.ROW not in wanted:  # a filter that all rows pass misleads optimizers
            kind_is = Call(Op.IN, (col(names.KIND), *(Lit(kind.value) for kind in wanted)))
        landed = None
        if self.landed_as_of is not None:
            landed = Call(Op.LE, (col(names.LANDED), Friendly(Lit(self.landed_as_of), Scalar(Kind.INSTANT))))
        mine = self.partition_where if wanted != (FactKind.TABLE,) else None  # S6: a truncate has no key
        grain = f"{' or '.join(kind.value for kind in wanted)} fact"
        return Scan(name, grain, columns, both(kind_is, mine, landed, where), source)

    def in_time(self, written: Expr) -> Expr | None:
        """Return whether a fact with this write time counts; None where every fact does."""
        return Call(Op.LE, (written, Lit(self.written_as_of))) if self.written_as_of is not None else None

    def written_in_time(self, value: Expr) -> Expr:
        """Return `value` (a struct with `written`), or null where it was not written in time."""
        counts = self.in_time(Field(value, WRITTEN))
        return value if counts is None else when(counts, value)

    def deletion(self, value: Expr) -> Expr:
        """Return the fields of a deletion to reduce: its write time (D1), or all of them for a state."""
        counted = self.written_in_time(value)
        return counted if self.is_whole else Field(counted, WRITTEN)

    def reduced(self, name: str, column: Column, *, cell: Expr, kind: LogicalType | None) -> CellColumn:
        """Return how to reduce a cell of `column`. An unwanted one needs no value: C2.6 never decides whether a cell shows."""
        if kind is None or not self.is_wanted(column):
            return CellColumn(name, cell, None, ())
        return CellColumn(name, cell, kind, self.payload(kind))

    def drop_time(self, column: Column) -> int | None:
        """Return the instant up to which the column's cells do not count (rule W6)."""
        return None if self.is_whole else self.schema.drop_time(column.name)

    def cell(self, column: Column, value: Expr) -> Expr:
        """Return the cell where it counts: written after the column's drop (W6), and no later than `written_as_of`."""
        dropped_at = self.drop_time(column)
        if dropped_at is not None:
            value = when(Call(Op.GT, (Field(value, WRITTEN), Lit(dropped_at))), value)
        return self.written_in_time(value)
