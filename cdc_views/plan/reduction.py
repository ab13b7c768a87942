"""The input of a reduction: which facts and columns count, and which parts of a state hold them.

A base has each row key once, with deletions applied (`compact`). So a row that no newer fact touches needs no
group-by, no join with its partition, and no shuffle. A partition with static cells counts as touched: its rows show them, and
its rows decide whether the statics show alone (rule W3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, LogicalType, Scalar
from cdc_views.plan import names
from cdc_views.plan.expr import Call, Expr, Friendly, Lit, Named, Op, both, col, cols, equal, when
from cdc_views.plan.nodes import CellColumn, Join, JoinKind, Node, Scan, Select, UnionAll, noted, together
from cdc_views.plan.order import VALUE, WRITTEN
from cdc_views.plan.parts import Parts, Source
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

_SINCE = "what landed after the state"
_BASE = "rows of the state, which are facts again (M1)"
_TWICE = "one that stands twice changes nothing (M1)"
_TOUCHED_ROWS = "the keys of what landed after the state"
_STATICS = "the state keeps static cells apart from rows: partitions with some are reduced on each read (W3)"
_TOUCHED_PARTITIONS = "deletions are about all rows of their partition (D2)"
_TOUCHED_BY_STATICS = "deletions and static cells are about all rows of their partition (D2, W3)"
_READ_AGAIN = "to be reduced with what landed after the state"
_PASSED = "rows without newer facts stay as they are"

Scans = list[tuple[tuple[FactKind, ...], Source]]
"""Kinds of facts, and the source to scan them in."""


class FactsFrom(Protocol):
    """Where facts come from instead of a raw table."""

    def facts(self, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None) -> Node:
        """Return the facts of some kinds, with `columns` over the columns of the canonical relation."""


Payload = Callable[[LogicalType], tuple[str, ...]]
"""The stored fields of a cell that the rest of the plan reads, by the type of its value."""


def value_payload(kind: LogicalType) -> tuple[str, ...]:
    """Return the payload of a view: the value alone."""
    return (VALUE,)


@dataclass(frozen=True, slots=True)
class WholeEvents:
    """What is known of facts that are events of whole rows, each with a write time of its own, and none of a state (S1).

    `partial` are the columns that an event may leave out (S4; None: any). `have_truncates`: some may be about all rows (S6).
    """

    partial: frozenset[str] | None = None
    have_truncates: bool = True


@dataclass(frozen=True, slots=True)
class Reduction:
    """The columns to reduce (`wanted`; None: all non-key columns), and the facts that count.

    `landed_as_of` and `written_as_of` (µs) drop facts that landed or were written later. Unwanted columns are reduced too,
    without their values, because a row's existence depends on every regular column (W2); `skips_unwanted` leaves them out,
    which is right only if every row has a marker (S1). Partitions that fail `partition_where`, a condition on stored partition
    columns, are not read. `is_whole` keeps what only a state needs: deletions' server times, and cells that W6 hides (the
    filter commutes with the maximum, so a corrected drop time needs no new state).

    `split` has the parts of a state with a base: only keys that newer facts touch need reducing. A fact about a row touches that
    row, any other fact its whole partition; no newer fact is about the whole table. None: all facts are in one place.
    `rows_from` is the source of all facts about rows that need reducing (None: raw, or the parts of `split`); `others_from`
    the source of facts about more than a row (None: every part that may hold some). `events`, `facts_from`: see `Ask`.
    """

    relation: Relation
    wanted: frozenset[str] | None = None
    payload: Payload = value_payload
    landed_as_of: int | None = None
    written_as_of: int | None = None
    partition_where: Expr | None = None
    skips_unwanted: bool = False
    split: Parts | None = None
    rows_from: Source | None = None
    others_from: Source | None = None
    is_whole: bool = False
    events: WholeEvents | None = None
    facts_from: FactsFrom | None = None

    @property
    def schema(self) -> TableSchema:
        """The table's schema."""
        return self.relation.schema

    def is_wanted(self, column: Column) -> bool:
        """Return whether the result shows the column."""
        return self.wanted is None or column.name in self.wanted

    def reducible(self, columns: tuple[Column, ...]) -> list[Column]:
        """Return the columns of `columns` whose cells are read at all."""
        return [c for c in columns if self.is_wanted(c) or not self.skips_unwanted]

    def row_keys(self) -> tuple[str, ...]:
        """Return the columns that identify a row."""
        return tuple(name for c in self.schema.row_key for name in names.grouping(c))

    def partition_keys(self) -> tuple[str, ...]:
        """Return the columns that identify a partition."""
        return tuple(name for c in self.schema.partition for name in names.grouping(c))

    def identities(self, kind: FactKind) -> tuple[str, ...]:
        """Return the columns that identify the row or partition of a `kind` fact. A partition's are never null."""
        columns = self.schema.row_key if kind is FactKind.ROW else self.schema.partition
        return tuple(names.identity(c) for c in columns)

    @property
    def row_kinds(self) -> list[FactKind]:
        """The kinds of facts about a single row. D2: without clustering columns a partition is one row."""
        return [FactKind.ROW] if self.schema.clustering else [FactKind.ROW, FactKind.PARTITION]

    def facts(self, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None = None) -> Node:
        """Return the facts of some kinds, without rows that need no reducing; `columns` must include their keys."""
        wanted = tuple(kinds)
        if self.facts_from is not None:
            return self.facts_from.facts(name, kinds=wanted, columns=columns, where=where)
        scan, is_of_rows = partial(self.scan, kinds=wanted, columns=columns, where=where), FactKind.ROW in wanted
        if is_of_rows and self.rows_from is not None:
            return scan(name, source=self.rows_from)
        if not is_of_rows or self.split is None:
            return scan(name, source=self.others_from or (Source.ALL if self.split is None else Source.OTHERS))
        base = scan(f"{name}_of_base", source=Source.BASE, note=_BASE)
        if not self.is_touched:
            return base
        parts: list[Node] = []
        if self.split.has(Source.FRESH):
            # M1: the base's winners and newer facts reduce to the same row as all of raw
            parts.append(scan(f"{name}_since", source=Source.FRESH, note=_SINCE))
            parts.append(self._joined(base, self._touched_rows(), kind=JoinKind.SEMI))
        if self._has_touched_partitions:
            # D2, W3: a deletion or a static is about every row of its partition; M1: reading a row twice changes nothing
            parts.append(self._joined(base, self._touched_partitions(), kind=JoinKind.SEMI))
        return UnionAll(name, base.grain, tuple(parts), notes=noted(_TWICE))

    def scan(
        self,
        name: str,
        *,
        kinds: Iterable[FactKind],
        columns: Named,
        where: Expr | None = None,
        source: Source = Source.ALL,
        note: str = "",
    ) -> Scan:
        """Return the facts of some kinds in one source."""
        wanted = tuple(kinds)
        kind_is: Expr | None = None
        are_all_rows = source.is_plain or (self.events is not None and not self.events.have_truncates)
        if not are_all_rows or FactKind.ROW not in wanted:  # a filter that all rows pass misleads optimizers
            kind = col(names.KIND)
            several = Call(Op.IN, (kind, *(Lit(each.value) for each in wanted)))
            kind_is = equal(kind, wanted[0].value) if len(wanted) == 1 else several
        landed = None
        if self.landed_as_of is not None:
            landed = col(names.LANDED) <= Friendly(Lit(self.landed_as_of), Scalar(Kind.INSTANT))
        mine = self.partition_where if wanted != (FactKind.TABLE,) else None  # S6: a truncate has no key
        grain = f"fact ({', '.join(kind.value for kind in wanted)})"
        return Scan(name, grain, columns, both(kind_is, mine, landed, where), source, wanted, notes=noted(note))

    def in_time(self, written: Expr) -> Expr | None:
        """Return whether a fact with this write time counts; None if every fact does."""
        return written <= self.written_as_of if self.written_as_of is not None else None

    def written_in_time(self, value: Expr) -> Expr:
        """Return `value` (a struct with `written`), or null if it was not written in time."""
        counts = self.in_time(value[WRITTEN])
        return value if counts is None else when(counts, value)

    def deletion(self, value: Expr) -> Expr:
        """Return the fields of a deletion to reduce: its write time (D1), or for a state all fields."""
        counted = self.written_in_time(value)
        return counted if self.is_whole else counted[WRITTEN]

    def reduced(self, name: str, column: Column, *, cell: Expr, kind: LogicalType | None) -> CellColumn:
        """Return a cell of `column` to reduce; an unwanted one needs no value, since C2.6 never decides whether a cell shows."""
        if kind is None or not self.is_wanted(column):
            return CellColumn(name, cell, None, ())
        return CellColumn(name, cell, None if self.relation.has_unique_writes else kind, self.payload(kind))

    def drop_time(self, column: Column) -> int | None:
        """Return the instant up to which the column's cells do not count (rule W6)."""
        return None if self.is_whole else self.schema.drop_time(column.name)

    def cell(self, column: Column, value: Expr) -> Expr:
        """Return the cell, or null if it was written up to the column's drop (W6), or later than `written_as_of`."""
        dropped_at = self.drop_time(column)
        if dropped_at is not None:
            value = when(value[WRITTEN] > dropped_at, value)
        return self.written_in_time(value)

    @property
    def is_touched(self) -> bool:
        """Whether a row of the base may need reducing, or newer facts exist."""
        return self._parts.has(Source.FRESH) or self._has_statics

    def untouched(self, rows: Node) -> Node:
        """Return the untouched rows of the base; `rows` carry their identities."""
        if self._parts.has(Source.FRESH):
            rows = self._joined(rows, self._touched_rows(), kind=JoinKind.ANTI)
        if self._has_touched_partitions:
            rows = self._joined(rows, self._touched_partitions(), kind=JoinKind.ANTI)
        return rows

    def touched_rows_of_base(self) -> Node:
        """Return file and position of the base's rows that newer facts touch; a row may occur twice."""
        columns = cols((*self.identities(FactKind.ROW), names.FILE, names.POSITION))
        base = self.scan("rows_of_base", kinds=[FactKind.ROW], columns=columns, source=Source.BASE)
        parts = [self._joined(base, self._touched_rows(), kind=JoinKind.SEMI)]
        if self._has_touched_partitions:
            parts.append(self._joined(base, self._touched_partitions(), kind=JoinKind.SEMI))
        rows = together("touched_rows_of_base", parts)
        return Select("replaced_rows", rows.grain, rows, cols((names.FILE, names.POSITION)))

    def keys_of(self, name: str, scans: Scans, kind: FactKind, *, note: str = "") -> Node:
        """Return the row keys or partitions of facts, one row per fact, for semi and anti joins."""
        columns = cols(self.identities(kind))
        named = [(f"{name}_by_{source.label}_facts" if scans[1:] else name, kinds, source) for kinds, source in scans]
        keys = [
            self.scan(step, kinds=kinds, columns=columns, source=source, note=_STATICS if kinds == (FactKind.STATIC,) else "")
            for step, kinds, source in named
        ]
        return replace(together(name, keys), notes=noted(note))

    @property
    def _parts(self) -> Parts:
        return self.split or Parts()

    @property
    def _judged(self) -> list[Source]:
        return [place for place in self._parts.places() if not place.is_plain]

    @property
    def _has_statics(self) -> bool:
        """Whether the base may hold statics that rows show (W3). Compacting ignores them: a state's rows have none."""
        return bool(self.schema.statics) and bool(self._judged) and not self.is_whole

    def _fresh(self, *kinds: FactKind) -> Scans:
        return [(kinds, Source.FRESH)] if self._parts.has(Source.FRESH) else []

    @property
    def _has_touched_partitions(self) -> bool:
        """Whether facts may touch all rows of a partition. Without clustering columns a partition is one row."""
        has_scopes = self._parts.of(Source.FRESH).statistics.has_scopes
        return bool(self.schema.clustering) and (has_scopes or self._has_statics)

    def _touched_rows(self) -> Node:
        return self.keys_of("touched_rows", self._fresh(*self.row_kinds), FactKind.ROW, note=_TOUCHED_ROWS)

    def _touched_partitions(self) -> Node:
        """The partitions with fresh partition or range deletions (D2), or with static cells that rows show (W3)."""
        statics = (FactKind.STATIC,) * self._has_statics
        scans = self._fresh(FactKind.PARTITION, FactKind.RANGE, *statics)
        scans += [(statics, place) for place in self._judged if statics]
        note = _TOUCHED_BY_STATICS if self._has_statics else _TOUCHED_PARTITIONS
        return self.keys_of("touched_partitions", scans, FactKind.PARTITION, note=note)

    def _joined(self, rows: Node, touched: Node, *, kind: JoinKind) -> Node:
        name = f"not_in_{touched.name}" if kind is JoinKind.ANTI else f"{rows.name}_in_{touched.name}"
        is_small = self._parts.is_small(Source.FRESH)
        if touched.name == "touched_partitions":
            # every partition may have static cells
            is_small = is_small and not self._has_statics
        on, columns = touched.output(), cols(rows.output(), "l")
        notes = noted(_PASSED if kind is JoinKind.ANTI else _READ_AGAIN)
        return Join(name, rows.grain, rows, touched, kind, on, columns, is_null_safe=True, is_right_small=is_small, notes=notes)
