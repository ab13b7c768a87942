"""Figures that reading the raw table gives: landings, distinct facts, the keys written most recently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.engines.base import Engine, Sources
from cdc_views.landing.delta import delta_errors
from cdc_views.model.naming import physical_name
from cdc_views.model.types import Udt
from cdc_views.plan import names
from cdc_views.plan.expr import Agg, Call, Each, Expr, Field, Fold, Greatest, Item, Lit, Named, Op, col
from cdc_views.plan.nodes import Aggregate, Node, Ordered, Scan
from cdc_views.plan.order import WRITTEN
from cdc_views.quality.checks import key_text
from cdc_views.report.model import Extent, Landing
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.relation_read import key_of

_FACTS = "n_facts"
_READ = ("_origin", names.LANDED)
"""Columns that say where and when a fact was read, and nothing of what it says."""


def extent_of(location: str) -> Extent:
    """Return the files of a Delta table's newest version; raises `EngineError` where it cannot be read."""
    with delta_errors(location):
        table = DeltaTable(location)
        files = pa.table(table.get_add_actions(flatten=True))
    rows = files.column("num_records").to_pylist()
    sizes = files.column("size_bytes").to_pylist()
    return Extent(table.version(), len(sizes), sum(map(int, sizes)), None if None in rows else sum(map(int, rows)))


@dataclass(frozen=True, slots=True)
class RawReader:
    """Reads one version of a raw table on an engine. Raises `EngineError` where it cannot."""

    engine: Engine
    raw: RawTable
    version: int

    def landings(self) -> tuple[Landing, ...]:
        """Return what landed when, in the order of time."""
        scan = Scan("landed", "fact", ((names.LANDED, col(names.LANDED)),))
        found = self._rows(Aggregate("landings", "landing", scan, (names.LANDED,), _counted()))
        counts = {pa.scalar(row[names.LANDED], pa.timestamp("us", tz="UTC")).value: int(row[_FACTS]) for row in found}
        return tuple(Landing(int(at), facts) for at, facts in sorted(counts.items()))

    def distinct(self) -> int:
        """Return how many facts differ in more than in where and when they were read."""
        columns = [name for name in self.raw.relation.arrow_schema().names if name not in _READ]
        scan = Scan("said", "fact", tuple((name, col(name)) for name in columns))
        each = Aggregate("distinct_facts", "distinct fact", scan, tuple(columns), ())
        (row,) = self._rows(Aggregate("distinct_counted", "table", each, (), _counted()))
        return int(row[_FACTS] or 0)

    def recent(self, most: int) -> list[tuple[str, int]]:
        """Return the keys, as JSON, with the largest write times, and these; at most so many, newest first, ties by key."""
        key = self.raw.relation.schema.row_key
        found = self._rows(_recent(self.raw.relation, most))
        return [(key_text(key, key_of(key, row)), int(row[WRITTEN])) for row in found]

    def _rows(self, plan: Node) -> Iterator[dict[str, Any]]:
        yield from self.engine.rows(plan, Sources(self.raw, self.version, is_raw=True)).to_pylist()


def _counted() -> Named:
    return ((_FACTS, Agg(Fold.COUNT, Lit(1))),)


def _recent(relation: Relation, most: int) -> Node:
    keys = [names.identity(column) for column in relation.schema.row_key]
    shown = [name for column in relation.schema.row_key for name in names.shown_as(column) if name not in keys]
    columns = {name: col(name) for name in dict.fromkeys((*keys, *shown))}
    is_row = Call(Op.EQ, (col(names.KIND), Lit(FactKind.ROW.value)))
    written = Call(Op.GREATEST, tuple(_write_times(relation)))
    scan = Scan("written_rows", "row fact", (*columns.items(), (WRITTEN, written)), is_row)
    folds: Named = (*((name, Agg(Fold.MIN, col(name))) for name in shown), (WRITTEN, Agg(Fold.MAX, col(WRITTEN))))
    each = Aggregate("written_keys", "row key", scan, tuple(keys), folds)
    return Ordered("recent_keys", "row key", each, ((WRITTEN, True), *((name, False) for name in keys)), most)


def _write_times(relation: Relation) -> Iterator[Expr]:
    """The write time of each part that a fact about a row may have."""
    yield Field(col(names.LIVE), WRITTEN)
    yield Field(col(names.DELETED), WRITTEN)
    for column in relation.schema.regulars:
        stored = col(physical_name(column.name))
        if not column.type.is_multicell:
            yield Field(stored, WRITTEN)
            continue
        yield Field(Field(stored, "deletion"), WRITTEN)
        cells = Field(stored, "cells")
        if isinstance(column.type, Udt):
            yield from (Field(Field(cells, physical_name(name)), WRITTEN) for name, _ in column.type.fields)
        else:
            yield Greatest(Each(cells, Field(Item(), WRITTEN)))
