"""Facts that land after their state has purged (rule M2): what of them counts, and what is late.

A part of a fact (a cell, a marker, a deletion) is late when it was written at or before what its partition has purged
when it landed. When a state is built from all of raw, an event's late parts are known by the event: those at or before
the largest write time that was quarantined of it.
"""

from __future__ import annotations

from enum import Enum

from cdc_views.plan import names
from cdc_views.plan.cell_filter import EVERYTHING, CellFilter, filtered, greatest, written_after, written_until
from cdc_views.plan.expr import Agg, Expr, Fold, Named, col, either, is_null, not_null
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, Node, Scan, Select
from cdc_views.plan.parts import Source
from cdc_views.plan.purge import THROUGH, remembered
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

_ORIGIN = "_origin"


class KnownBy(Enum):
    """By what a fact is known to be late."""

    PARTITION = "partition"
    """It landed after its partition purged: of facts that a state has not seen."""
    EVENT = "event"
    """Its event was quarantined: of all of raw."""


def facts_in_time(relation: Relation, known_by: KnownBy, *, drops_empty: bool) -> Node:
    """Return the facts of `Source.TAIL` in the raw layout, without their late parts.

    `drops_empty`: also without the facts that nothing is left of; those change no view, and to find them all columns
    must be read.
    """
    judged = _judged(relation, known_by, JoinKind.LEFT)
    kept = _filtered(relation, judged, written_after(col(THROUGH)))
    if not drops_empty:
        return Select("facts_in_time", "raw fact", judged, _layout(relation, kept))
    aged = Select("sifted_facts", "raw fact", judged, (*_layout(relation, kept), (THROUGH, col(THROUGH))))
    counts = either(is_null(col(THROUGH)), _says_something(kept))
    return Select("facts_in_time", "raw fact", aged, _layout(relation), counts)


def late_facts(relation: Relation, known_by: KnownBy) -> Node:
    """Return the late parts of the facts of `Source.TAIL`: one row a raw fact that has any, in the raw layout."""
    judged = _judged(relation, known_by, JoinKind.INNER)
    late = _filtered(relation, judged, written_until(col(THROUGH)))
    aged = Select("late_parts", "raw fact", judged, _layout(relation, late))
    return Select("late_facts", "late fact", aged, _layout(relation), _says_something(late))


def _judged(relation: Relation, known_by: KnownBy, join: JoinKind) -> Node:
    """Each fact beside the write time at or before which it is late; null where it is not."""
    facts = Scan("landed_facts", "raw fact", _layout(relation), None, Source.TAIL)
    on, purged = _purged(relation, known_by)
    columns = (*((name, col(name, "l")) for name in facts.output()), (THROUGH, col(THROUGH, "r")))
    is_event = known_by is KnownBy.EVENT
    return Join("facts_and_purges", "raw fact", facts, purged, join, on, columns, is_null_safe=is_event)


def _purged(relation: Relation, known_by: KnownBy) -> tuple[tuple[str, ...], Node]:
    partition = Reduction(relation).identities(FactKind.PARTITION)
    if known_by is KnownBy.PARTITION:
        return partition, remembered(relation)
    on = (*partition, _ORIGIN, names.LANDED)
    columns = relation.schema.statics + relation.schema.regulars
    written = greatest(relation.arrow_schema().names, columns, EVERYTHING)
    known = Scan("quarantined_facts", "late fact", (*((n, col(n)) for n in on), (THROUGH, written)), None, Source.LATE)
    return on, Aggregate("quarantined_events", "event and partition", known, on, ((THROUGH, Agg(Fold.MAX, col(THROUGH))),))


def _layout(relation: Relation, values: Named = ()) -> Named:
    """The raw layout's columns in order, those of `values` computed."""
    computed = dict(values)
    return tuple((name, computed.get(name, col(name))) for name in relation.arrow_schema().names)


def _filtered(relation: Relation, node: Node, passes: CellFilter) -> Named:
    return filtered(node.output(), relation.schema.statics + relation.schema.regulars, passes)


def _says_something(parts: Named) -> Expr:
    return either(*(not_null(col(name)) for name, _ in parts))


__all__ = ["KnownBy", "facts_in_time", "late_facts"]
