"""The deletions that bear on one row, by scope (rules D1 to D3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from cdc_views.model.schema import TableSchema
from cdc_views.rules.cells import Deletion
from cdc_views.rules.codec.comparable import comparable
from cdc_views.rules.facts import Bound, Fact, FactKind, Origin


class Scope(str, Enum):
    """What a deletion removes, widest first."""

    TABLE = "table"
    PARTITION = "partition"
    RANGE = "range"
    ROW = "row"
    COLUMN = "column"


_RULES = {Scope.TABLE: "S6", Scope.PARTITION: "D2", Scope.RANGE: "D2", Scope.ROW: "D1", Scope.COLUMN: "D3"}
_SCOPE_OF = {
    FactKind.TABLE: Scope.TABLE,
    FactKind.PARTITION: Scope.PARTITION,
    FactKind.RANGE: Scope.RANGE,
    FactKind.ROW: Scope.ROW,
}


@dataclass(frozen=True, slots=True)
class DeletionSeen:
    """One deletion in scope; equal copies are one, with all their origins.

    `column` names the multi-cell column of a complex deletion, else it is empty; `start` and `end` are a range's.
    """

    scope: Scope
    deletion: Deletion
    origins: tuple[Origin, ...]
    column: str = ""
    start: Bound | None = None
    end: Bound | None = None

    @property
    def rule(self) -> str:
        """The rule by which it removes."""
        return _RULES[self.scope]


def origin_order(origin: Origin) -> tuple[str, str, int]:
    """Return the key that lists origins by replica, then place."""
    return origin.node, origin.segment, origin.position


def deletions_over(schema: TableSchema, facts: Iterable[Fact], *, clustering: tuple[Any, ...] | None) -> list[DeletionSeen]:
    """Return the deletions that cover a row, or, for `clustering` None, its partition's static row.

    Widest scope first, latest first within a scope.
    """
    found: dict[Any, DeletionSeen] = {}
    for fact in facts:
        if clustering is None and fact.kind in (FactKind.ROW, FactKind.RANGE):
            continue
        for seen in _of_fact(schema, fact, clustering=clustering or ()):
            identity = (seen.scope, seen.column, seen.deletion, repr((seen.start, seen.end)))
            known = found.get(identity)
            copies = seen.origins if known is None else known.origins + seen.origins
            found[identity] = replace(seen, origins=tuple(sorted(copies, key=origin_order)))
    order = list(Scope)
    return sorted(found.values(), key=lambda s: (order.index(s.scope), s.column, -s.deletion.written, -s.deletion.deleted_at))


def _of_fact(schema: TableSchema, fact: Fact, *, clustering: tuple[Any, ...]) -> list[DeletionSeen]:
    found = []
    if fact.deletion is not None and (fact.kind is not FactKind.RANGE or covers_key(schema, fact, key=clustering)):
        found.append(DeletionSeen(_SCOPE_OF[fact.kind], fact.deletion, (fact.origin,), "", fact.start, fact.end))
    for name, elements in fact.elements.items():
        if elements.deletion is not None:
            found.append(DeletionSeen(Scope.COLUMN, elements.deletion, (fact.origin,), name))
    return found


def covers_key(schema: TableSchema, fact: Fact, *, key: tuple[Any, ...]) -> bool:
    """Whether a range deletion covers a full clustering key (rule D2)."""
    assert fact.start is not None
    assert fact.end is not None
    return _is_inside(schema, fact.start, key, is_start=True) and _is_inside(schema, fact.end, key, is_start=False)


def _is_inside(schema: TableSchema, bound: Bound, key: tuple[Any, ...], *, is_start: bool) -> bool:
    for column, limit, value in zip(schema.clustering, bound.prefix, key, strict=False):
        ours, theirs = comparable(column.type, value), comparable(column.type, limit)
        if ours != theirs:
            comes_after = (ours > theirs) != column.descending
            return comes_after == is_start
    return bound.inclusive or not bound.prefix
