"""Facts that land after their state has purged (rule M2): which of their parts count, and which are late.

A part (a cell, a marker, a deletion) is late if its write time is at or below the newest that its partition had purged when
it landed. A build from all of raw cannot compare so, since raw has the purged facts too. There the late parts of an event
are those at or below the largest write time of it in quarantine.
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
    """How to recognize a late fact."""

    PARTITION = "partition"
    """By its partition's purge: for facts that the state has not seen."""
    EVENT = "event"
    """By its event in quarantine: for all of raw."""


def facts_in_time(relation: Relation, known_by: KnownBy, *, drops_empty: bool) -> Node:
    """Return the facts of `Source.TAIL` in the raw layout, without their late parts.

    `drops_empty` drops the facts without any part left. They change no view, and finding them reads all columns.
    """
    judged = _judged(relation, known_by, JoinKind.LEFT)
    kept = _filtered(relation, judged, written_after(col(THROUGH)))
    if not drops_empty:
        return Select("facts_in_time", "raw fact", judged, _layout(relation, kept))
    aged = Select("sifted_facts", "raw fact", judged, (*_layout(relation, kept), (THROUGH, col(THROUGH))))
    counts = either(is_null(col(THROUGH)), _says_something(kept))
    return Select("facts_in_time", "raw fact", aged, _layout(relation), counts)


def late_facts(relation: Relation, known_by: KnownBy) -> Node:
    """Return the late parts of the facts of `Source.TAIL`: one row per raw fact that has any, in the raw layout."""
    judged = _judged(relation, known_by, JoinKind.INNER)
    late = _filtered(relation, judged, written_until(col(THROUGH)))
    aged = Select("late_parts", "raw fact", judged, _layout(relation, late))
    return Select("late_facts", "late fact", aged, _layout(relation), _says_something(late))


def _judged(relation: Relation, known_by: KnownBy, join: JoinKind) -> Node:
    """Each fact, with the write time at or below which its parts are late (`THROUGH`); null: no part is."""
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
    """The raw layout's columns in order, with `values` in place of the columns that they name."""
    computed = dict(values)
    return tuple((name, computed.get(name, col(name))) for name in relation.arrow_schema().names)


def _filtered(relation: Relation, node: Node, passes: CellFilter) -> Named:
    return filtered(node.output(), relation.schema.statics + relation.schema.regulars, passes)


def _says_something(parts: Named) -> Expr:
    return either(*(not_null(col(name)) for name, _ in parts))
