"""Rule M2 in plain Python: what a state has purged, and which parts of what lands next are late.

It keeps every fact that counted, and shares no code with the plan: what a state may purge is worked out from all of
them each time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import TableSchema
from cdc_views.rules.cells import Cell, Deletion, Liveness, latest_deletion, merge_cells, reconcile_liveness
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.facts import Elements, Fact, FactKind
from cdc_views.rules.oracle import _in_range, path_type

Identity = tuple[bytes, ...]


def identity(schema: TableSchema, fact: Fact) -> Identity:
    """Return what tells the fact's partition apart (rule K1)."""
    return tuple(partition_identity(c.type, v) for c, v in zip(schema.partition, fact.partition, strict=True))


def split(fact: Fact, *, through: int | None) -> tuple[Fact, Fact]:
    """Return the fact's parts written after `through`, and the others; all are in time where that is None."""
    return _only(fact, through, late=False), _only(fact, through, late=True)


def _only(fact: Fact, through: int | None, *, late: bool) -> Fact:
    def kept(part: Any) -> bool:
        return part is not None and (through is not None and part.written <= through) == late

    elements = {
        name: Elements(e.deletion if kept(e.deletion) else None, tuple((p, c) for p, c in e.cells if kept(c)))
        for name, e in fact.elements.items()
    }
    return replace(
        fact,
        liveness=fact.liveness if kept(fact.liveness) else None,
        deletion=fact.deletion if kept(fact.deletion) else None,
        cells={name: cell for name, cell in fact.cells.items() if kept(cell)},
        elements={name: e for name, e in elements.items() if e.deletion is not None or e.cells},
    )


def says_something(fact: Fact) -> bool:
    """Whether anything is left of a fact."""
    return bool(fact.liveness or fact.deletion or fact.cells or fact.elements)


@dataclass
class Ages:
    """What has landed of a table, what of it counts, and what its partitions have purged."""

    schema: TableSchema
    order: WriteOrder = WriteOrder.MICROS
    through: dict[Identity, int] = field(default_factory=dict)
    counted: list[Fact] = field(default_factory=list)
    late: list[Fact] = field(default_factory=list)

    def land(self, facts: Iterable[Fact]) -> None:
        """Facts land, and are judged by what was purged until now."""
        for fact in facts:
            is_whole_table = fact.kind is FactKind.TABLE
            in_time, late = split(fact, through=None if is_whole_table else self.through.get(identity(self.schema, fact)))
            self.counted.append(in_time)
            if says_something(late):
                self.late.append(late)

    def purge(self, *, horizon: int) -> None:
        """A new base is written that leaves out what ended at or before `horizon`."""
        partitions: dict[Identity, list[Fact]] = {}
        for fact in self.counted:
            if fact.kind is not FactKind.TABLE:
                partitions.setdefault(identity(self.schema, fact), []).append(fact)
        for key, facts in partitions.items():
            purged = [part.written for part in _winners(self.schema, facts) if _has_ended(part, horizon, self.order)]
            if purged:
                self.through[key] = max(*purged, self.through.get(key, purged[0]))


def _has_ended(part: Cell | Liveness | Deletion, horizon: int, order: WriteOrder) -> bool:
    if order is WriteOrder.MICROS and part.written > horizon * 1_000_000:
        return False
    if isinstance(part, Liveness):
        return part.expires_at is not None and part.expires_at <= horizon
    if isinstance(part, Cell) and part.deleted_at is None:
        return part.expires_at is not None and part.expires_at <= horizon
    assert part.deleted_at is not None
    return 0 < part.deleted_at <= horizon


def _winners(schema: TableSchema, facts: list[Fact]) -> Iterator[Cell | Liveness | Deletion]:
    """What is left of a partition's facts after merging and after deletions: what its state holds."""
    if not schema.clustering:
        facts = [replace(f, kind=FactKind.ROW) for f in facts]  # the partition is the row
    deletion = latest_deletion(f.deletion for f in facts if f.kind is FactKind.PARTITION)
    ranges = _latest_ranges(schema, facts)
    rows: dict[Hashable, list[Fact]] = {}
    for fact in facts:
        if fact.kind is FactKind.ROW:
            place = tuple(comparable(c.type, v) for c, v in zip(schema.clustering, fact.clustering, strict=True))
            rows.setdefault(place, []).append(fact)
    for same_row in rows.values():
        covering = [f.deletion for f in ranges if _in_range(schema, f, same_row[0].clustering)]
        own = latest_deletion(f.deletion for f in same_row)
        yield from _left(schema, same_row, latest_deletion([deletion, own, *covering]))
    yield from _left(schema, [f for f in facts if f.kind is FactKind.STATIC], deletion)
    yield from (d for d in [deletion, *(f.deletion for f in ranges)] if d is not None)


def _latest_ranges(schema: TableSchema, facts: list[Fact]) -> list[Fact]:
    latest: dict[Any, Fact] = {}
    for fact in facts:
        if fact.kind is FactKind.RANGE and fact.deletion is not None:
            bounds = tuple(
                (b.inclusive, tuple(comparable(c.type, v) for c, v in zip(schema.clustering, b.prefix, strict=False)))
                for b in (fact.start, fact.end)
                if b is not None
            )
            known = latest.get(bounds)
            if known is None or latest_deletion([known.deletion, fact.deletion]) is fact.deletion:
                latest[bounds] = fact
    return list(latest.values())


def _left(schema: TableSchema, facts: list[Fact], deletion: Deletion | None) -> Iterator[Cell | Liveness | Deletion]:
    liveness: Liveness | None = None
    cells: dict[Hashable, Cell] = {}
    columns: dict[str, Deletion | None] = {}
    for fact in facts:
        liveness = reconcile_liveness(liveness, fact.liveness)
        merge_cells(cells, fact.cells.items())
        for name, elements in fact.elements.items():
            columns[name] = latest_deletion([columns.get(name), elements.deletion])
            kind = path_type(schema.column(name).type)
            merge_cells(cells, (((name, comparable(kind, path)), cell) for path, cell in elements.cells))
    if deletion is not None and facts and facts[0].kind is FactKind.ROW:
        yield deletion
    if liveness is not None and not (deletion and deletion.covers(liveness.written)):
        yield liveness
    yield from (d for d in columns.values() if d is not None and not (deletion and deletion.covers(d.written)))
    for place, cell in cells.items():
        own = columns.get(place[0]) if isinstance(place, tuple) else None
        scope = latest_deletion([deletion, own])
        if not (scope and scope.covers(cell.written)):
            yield cell
