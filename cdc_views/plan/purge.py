"""Purging a state, and recognizing late facts (rule M2).

A tombstone, a deletion or an expired cell leaves the state when both its server time and its write time are at or before the
horizon. A base has its deletions applied, so nothing reappears when a deletion leaves. The base keeps one fact of kind `purged`
per partition: the largest write time that left (`_live.written`).

A part (a cell, a marker, a deletion) is late if its write time is at or below the newest that its partition had purged when it
landed. A build from all of raw cannot use this test, because raw has the purged facts too. There an event's late parts are the
parts at or below the event's largest write time in quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.plan import cell_filter, names
from cdc_views.plan.cell_filter import DELETION, CellFilter, Instant
from cdc_views.plan.expr import Expr, Lit, Named, Struct, any_of, col, cols, either, equal, is_null, maxima, not_null
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, Node, Scan, Select, replaced, together
from cdc_views.plan.order import RANK, WRITTEN
from cdc_views.plan.parts import Source
from cdc_views.plan.reduce import display_folds, stored_keys
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

PURGED_KIND = "purged"
"""The `_kind` of a partition's purge. `_live` has the largest write time that left, and the largest rank of an expired cell
that left (null: none). A read as of a time before that expiry would still show the cell."""
THROUGH = "_purged_through"
_LATEST = "_latest_expiry"
_ORIGIN = "_origin"

Facts = list[tuple[FactKind, Node]]
"""A base's facts by kind, in the raw layout."""


@dataclass(frozen=True, slots=True)
class Purge:
    """Parts that ended at or before `horizon` (seconds; None: none) leave a new base. `remembers`: the state purged before."""

    horizon: Instant | None
    remembers: bool = False


def without_ended(request: Reduction, facts: Facts, purge: Purge) -> tuple[Facts, Node]:
    """Return the facts of a base that stay, and one `purged` fact for each partition that has ever purged."""
    markers: list[Node] = [remembered(request.relation)] if purge.remembers else []
    if purge.horizon is None:
        assert markers, "a purge that neither purges nor remembers"
        return facts, _remembering(request, markers)
    settled = [(kind, _settled_statics(request, node, facts) if kind is FactKind.STATIC else node) for kind, node in facts]
    aged = [(kind, node) for kind, node in settled if kind is not FactKind.TABLE]  # M2: a truncate never leaves
    markers += [_leaving(request, kind, node, purge.horizon) for kind, node in aged]
    kept = [(k, node if k is FactKind.TABLE else _staying(request, k, node, purge.horizon)) for k, node in settled]
    return kept, _remembering(request, markers)


def remembered(relation: Relation) -> Scan:
    """Return the `purged` facts of a state: the partition's columns, `THROUGH`, and the largest rank of an expired cell."""
    columns = (*_partition(relation), (THROUGH, col(names.LIVE)[WRITTEN]), (_LATEST, col(names.LIVE)[RANK]))
    is_purged = equal(col(names.KIND), PURGED_KIND)
    return Scan("purged_before", "purged partition", columns, is_purged, Source.PURGED)


def _partition(relation: Relation) -> Named:
    return stored_keys(Reduction(relation).partition_keys(), relation.schema.partition)


def _columns(request: Reduction, kind: FactKind) -> tuple[Column, ...]:
    return {FactKind.ROW: request.schema.regulars, FactKind.STATIC: request.schema.statics}.get(kind, ())


def _staying(request: Reduction, kind: FactKind, node: Node, horizon: Instant) -> Node:
    """The facts without the parts that leave; a fact without parts leaves too (M2: parts are judged one by one)."""
    columns = _columns(request, kind)
    kept = dict(cell_filter.filtered(node.output(), columns, cell_filter.ended(horizon, request.relation.order).inverted()))
    aged = replaced(f"{node.name}_staying", node, kept)
    own = names.OWN_DELETED if names.OWN_DELETED in kept else names.DELETED
    says = [names.LIVE, own, *(physical_name(column.name) for column in columns)]
    return replaced(f"{node.name}_left", aged, {}, where=any_of(name for name in says if name in kept))


def _leaving(request: Reduction, kind: FactKind, node: Node, horizon: Instant) -> Node:
    """The partition of each fact from which a part leaves, and the largest write time of such parts."""
    columns, have = _columns(request, kind), node.output()
    leaves = cell_filter.greatest(have, columns, cell_filter.ended(horizon, request.relation.order))
    latest = cell_filter.greatest(have, columns, cell_filter.expired_by(horizon), of=RANK)
    values = (*_partition(request.relation), (THROUGH, leaves), (_LATEST, latest))
    aged = Select(f"{node.name}_leaving", f"{kind.value} fact", node, values)
    return Select(f"{node.name}_gone", "fact that something leaves from", aged, cols(aged.output()), not_null(col(THROUGH)))


def _remembering(request: Reduction, markers: list[Node]) -> Node:
    """One `purged` fact per partition, with the largest write time and rank that ever left."""
    every = together("purged_now_and_before", markers, grain="purge of a partition")
    keys = request.partition_keys()
    folds = (*display_folds(request.schema.partition, keys), *maxima(THROUGH, _LATEST))
    purged = Aggregate("purged_partitions", "purged partition", every, keys, folds)
    live = Struct(((WRITTEN, col(THROUGH)), (RANK, col(_LATEST))))
    return Select("purged_facts", "purged partition", purged, (*_partition(request.relation), (names.LIVE, live)))


def _settled_statics(request: Reduction, statics: Node, facts: Facts) -> Node:
    """Statics without the cells that a deletion hides (D1): the deletion may leave, and the cells must not show again."""
    deletions = next((node for kind, node in facts if kind is FactKind.PARTITION), None)
    if deletions is None:
        return statics
    columns = (*cols(statics.output(), "l"), (names.COVER, col(names.DELETED, "r")[WRITTEN]))
    on = request.identities(FactKind.PARTITION)
    covered = Join("statics_and_deletions", statics.grain, statics, deletions, JoinKind.LEFT, on, columns)
    kept: dict[str, Expr] = {}
    for column in request.schema.statics:
        own = col(physical_name(column.name))[DELETION][WRITTEN] if column.type.is_multicell else Lit(None)
        kept |= dict(cell_filter.filtered(statics.output(), [column], cell_filter.uncovered(col(names.COVER), own)))
    return Select("settled_statics", statics.grain, covered, tuple((n, kept.get(n, col(n))) for n in statics.output()))


class KnownBy(Enum):
    """How to recognize a late fact: by its partition's purge if the state has not seen it; in all of raw, by its event."""

    PARTITION = "partition"
    EVENT = "event"


def facts_in_time(relation: Relation, known_by: KnownBy, *, drops_empty: bool) -> Node:
    """Return the facts of `Source.TAIL` in the raw layout, without their late parts.

    `drops_empty` drops facts without any part left. They change no view, and finding them requires all columns.
    """
    judged, kept = _judged(relation, known_by, JoinKind.LEFT, cell_filter.written_after(col(THROUGH)))
    if not drops_empty:
        return Select("facts_in_time", "raw fact", judged, _layout(relation, kept))
    aged = Select("sifted_facts", "raw fact", judged, (*_layout(relation, kept), (THROUGH, col(THROUGH))))
    counts = either(is_null(col(THROUGH)), any_of(dict(kept)))
    return Select("facts_in_time", "raw fact", aged, _layout(relation), counts)


def late_facts(relation: Relation, known_by: KnownBy) -> Node:
    """Return the late parts of the facts of `Source.TAIL`: one row per raw fact that has any, in the raw layout."""
    judged, late = _judged(relation, known_by, JoinKind.INNER, cell_filter.written_until(col(THROUGH)))
    aged = Select("late_parts", "raw fact", judged, _layout(relation, late))
    return Select("late_facts", "late fact", aged, _layout(relation), any_of(dict(late)))


def _judged(relation: Relation, known_by: KnownBy, join: JoinKind, passes: CellFilter) -> tuple[Node, Named]:
    """The facts with `THROUGH` (parts written at or before it are late; null: no part is), and the parts that pass."""
    facts = Scan("landed_facts", "raw fact", _layout(relation), None, Source.TAIL)
    on, purged = _purged(relation, known_by)
    columns = (*cols(facts.output(), "l"), (THROUGH, col(THROUGH, "r")))
    is_event = known_by is KnownBy.EVENT
    judged = Join("facts_and_purges", "raw fact", facts, purged, join, on, columns, is_null_safe=is_event)
    return judged, cell_filter.filtered(judged.output(), relation.schema.statics + relation.schema.regulars, passes)


def _purged(relation: Relation, known_by: KnownBy) -> tuple[tuple[str, ...], Node]:
    partition = Reduction(relation).identities(FactKind.PARTITION)
    if known_by is KnownBy.PARTITION:
        return partition, remembered(relation)
    on = (*partition, _ORIGIN, names.LANDED)
    columns = relation.schema.statics + relation.schema.regulars
    written = cell_filter.greatest(relation.arrow_schema().names, columns, cell_filter.EVERYTHING)
    known = Scan("quarantined_facts", "late fact", (*cols(on), (THROUGH, written)), None, Source.LATE)
    return on, Aggregate("quarantined_events", "event and partition", known, on, maxima(THROUGH))


def _layout(relation: Relation, values: Named = ()) -> Named:
    computed = dict(values)
    return tuple((name, computed.get(name, col(name))) for name in relation.arrow_schema().names)
