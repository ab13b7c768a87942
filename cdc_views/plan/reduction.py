"""What to reduce, and from where: which facts count, which columns, how a state splits them."""

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
    """What to reduce: the columns wanted (all non-key columns when None), and which facts count.

    `landed_as_of` and `written_as_of` (µs) drop facts landed or written later. Row visibility (rule W2) needs
    every regular column's cells, so unwanted ones are still reduced, without their values.
    """

    relation: Relation
    wanted: frozenset[str] | None = None
    payload: Payload = value_payload
    landed_as_of: int | None = None
    written_as_of: int | None = None
    partition_where: Expr | None = None
    """A condition on stored partition columns; partitions it refuses are not read."""
    skips_unwanted: bool = False
    """Leave unwanted columns out altogether: right only where every row has a marker (rule S1)."""
    split: Parts | None = None
    """The parts of a state with a base: only keys that facts since then touch need reducing. None: all is in one place.

    A fact about a row touches that row, any other fact its whole partition; none is about the whole table.
    """
    rows_from: Source | None = None
    """Where all facts about rows are read from that need reducing; None for the whole raw table, or as `split` says."""
    others_from: Source | None = None
    """Where facts are read that are about no row alone; None for wherever there may be some."""
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
        """Columns that alone tell the owners of `kind` facts apart; a partition's are never null."""
        columns = self.schema.row_key if kind is FactKind.ROW else self.schema.partition
        return tuple(names.identity(c) for c in columns)

    def partition_keys(self) -> tuple[str, ...]:
        """Columns that identify a partition."""
        return tuple(name for c in self.schema.partition for name in names.grouping(c))

    def facts(self, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None = None) -> Node:
        """Return facts of some kinds; a column that every fact has null is not worth a row.

        Of rows, only those that need reducing; `columns` hold their keys.
        """
        wanted = tuple(kinds)
        if self.rows_from is not None and FactKind.ROW in wanted:
            return self.scan(name, kinds=wanted, columns=columns, where=where, source=self.rows_from)
        if self.split is None or FactKind.ROW not in wanted:
            source = self.others_from or (Source.ALL if self.split is None else Source.OTHERS)
            return self.scan(name, kinds=wanted, columns=columns, where=where, source=source)
        from cdc_views.plan.split import touched_facts

        return touched_facts(self, name, kinds=wanted, columns=columns, where=where)

    def scan(
        self,
        name: str,
        *,
        kinds: Iterable[FactKind],
        columns: Named,
        where: Expr | None = None,
        source: Source = Source.ALL,
    ) -> Scan:
        """Return the facts of some kinds in one place."""
        wanted = tuple(kinds)
        kind_is: Expr | None = None
        if not source.is_plain or FactKind.ROW not in wanted:  # else engines would expect few of them to pass
            kind_is = Call(Op.IN, (col(names.KIND), *(Lit(kind.value) for kind in wanted)))
        landed = None
        if self.landed_as_of is not None:
            landed = Call(Op.LE, (col(names.LANDED), Friendly(Lit(self.landed_as_of), Scalar(Kind.INSTANT))))
        mine = self.partition_where if wanted != (FactKind.TABLE,) else None
        grain = f"{' or '.join(kind.value for kind in wanted)} fact"
        return Scan(name, grain, columns, both(kind_is, mine, landed, where), source)

    def in_time(self, written: Expr) -> Expr | None:
        """Return whether what was written then counts; None where everything does."""
        return Call(Op.LE, (written, Lit(self.written_as_of))) if self.written_as_of is not None else None

    def written_in_time(self, value: Expr) -> Expr:
        """Return `value` (a struct with `written`), or null where it was not written in time."""
        counts = self.in_time(Field(value, WRITTEN))
        return value if counts is None else when(counts, value)

    def deletion(self, value: Expr) -> Expr:
        """Return the part of a deletion that takes part in reducing: its write time, or all of it for a state."""
        counted = self.written_in_time(value)
        return counted if self.is_whole else Field(counted, WRITTEN)

    def reduced(self, name: str, column: Column, *, cell: Expr, kind: LogicalType | None) -> CellColumn:
        """Return how a cell of `column` is reduced; of an unwanted one only whether it shows matters, not its tie."""
        if kind is None or not self.is_wanted(column):
            return CellColumn(name, cell, None, ())
        return CellColumn(name, cell, kind, self.payload(kind))

    def drop_time(self, column: Column) -> int | None:
        """Return the instant up to which the column's cells do not count (rule W6)."""
        return None if self.is_whole else self.schema.drop_time(column.name)

    def cell(self, column: Column, value: Expr) -> Expr:
        """Return the column's cell where it counts: not written before its drop (W6), nor after `written_as_of`."""
        dropped_at = self.drop_time(column)
        if dropped_at is not None:
            value = when(Call(Op.GT, (Field(value, WRITTEN), Lit(dropped_at))), value)
        return self.written_in_time(value)
