"""What leaves a state, and what the state remembers of it (rule M2).

A tombstone, a deletion or an expired cell leaves when its server time and its write time are both at or before the horizon.
A base has its deletions applied, so a deletion that leaves uncovers nothing. Instead the base keeps one fact of kind `purged`
per partition: the largest write time that left (`_live.written`). Later facts at or below it are late. The horizon is an
argument (rule M3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.plan import names
from cdc_views.plan.cell_filter import DELETION, Instant, ended, expired_by, filtered, greatest, uncovered
from cdc_views.plan.expr import Agg, Call, Expr, Field, Fold, Lit, Named, Op, Struct, col, either, not_null
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, Node, Scan, Select, UnionAll
from cdc_views.plan.order import RANK, WRITTEN
from cdc_views.plan.parts import Source
from cdc_views.plan.reduce import display_folds, displayed
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

PURGED_KIND = "purged"
"""The `_kind` of a partition's purge. `_live` has the largest write time that left, and the largest rank of an expired cell
that left (null: none): reads as of a time before that expiry would still show the cell."""
THROUGH = "_purged_through"
_LATEST = "_latest_expiry"

Facts = list[tuple[FactKind, Node]]
"""A base's facts by kind, in the raw layout."""


@dataclass(frozen=True, slots=True)
class Purge:
    """What a new base leaves out.

    Attributes:
        horizon: Seconds since the epoch, or an expression of them: what ended at or before it leaves. None: nothing leaves.
        remembers: Whether the state has purged before.
    """

    horizon: Instant | None
    remembers: bool = False


def without_ended(request: Reduction, facts: Facts, purge: Purge) -> tuple[Facts, Node]:
    """Return the facts of a base that stay, and one `purged` fact for each partition that something ever left."""
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
    """Return the `purged` facts of a state: the partition's columns, `THROUGH`, and the largest rank that expired."""
    columns = (*_partition(relation), (THROUGH, Field(col(names.LIVE), WRITTEN)), (_LATEST, Field(col(names.LIVE), RANK)))
    is_purged = Call(Op.EQ, (col(names.KIND), Lit(PURGED_KIND)))
    return Scan("purged_before", "purged partition", columns, is_purged, Source.PURGED)


def _partition(relation: Relation) -> Named:
    request = Reduction(relation)
    wanted = dict.fromkeys(request.partition_keys() + displayed(relation.schema.partition))
    return tuple((name, col(name)) for name in wanted)


def _columns(request: Reduction, kind: FactKind) -> tuple[Column, ...]:
    """The non-key columns whose cells a fact of that kind has."""
    return {FactKind.ROW: request.schema.regulars, FactKind.STATIC: request.schema.statics}.get(kind, ())


def _staying(request: Reduction, kind: FactKind, node: Node, horizon: Instant) -> Node:
    """The facts without the parts that leave; a fact without parts leaves as a whole (M2: parts are judged one by one)."""
    columns = _columns(request, kind)
    kept = dict(filtered(node.output(), columns, ended(horizon, request.relation.order).inverted()))
    aged = Select(f"{node.name}_staying", node.grain, node, tuple((n, kept.get(n, col(n))) for n in node.output()))
    own = names.OWN_DELETED if names.OWN_DELETED in kept else names.DELETED
    says = [names.LIVE, own, *(physical_name(column.name) for column in columns)]
    present = either(*(not_null(col(name)) for name in says if name in kept))
    return Select(f"{node.name}_left", node.grain, aged, tuple((n, col(n)) for n in aged.output()), present)


def _leaving(request: Reduction, kind: FactKind, node: Node, horizon: Instant) -> Node:
    """The partition of each fact with a part that leaves, and the largest write time of such parts."""
    columns, have = _columns(request, kind), node.output()
    leaves = greatest(have, columns, ended(horizon, request.relation.order))
    latest = greatest(have, columns, expired_by(horizon), of=RANK)
    values = (*_partition(request.relation), (THROUGH, leaves), (_LATEST, latest))
    aged = Select(f"{node.name}_leaving", f"{kind.value} fact", node, values)
    named = tuple((name, col(name)) for name in aged.output())
    return Select(f"{node.name}_gone", "fact that something leaves from", aged, named, not_null(col(THROUGH)))


def _remembering(request: Reduction, markers: Iterable[Node]) -> Node:
    """One `purged` fact per partition: the largest write time and rank that ever left."""
    parts = tuple(markers)
    every = UnionAll("purged_now_and_before", "purge of a partition", parts) if len(parts) > 1 else parts[0]
    keys = request.partition_keys()
    folds = (*display_folds(request.schema.partition, keys), *((name, Agg(Fold.MAX, col(name))) for name in (THROUGH, _LATEST)))
    purged = Aggregate("purged_partitions", "purged partition", every, keys, folds)
    live = Struct(((WRITTEN, col(THROUGH)), (RANK, col(_LATEST))))
    return Select("purged_facts", "purged partition", purged, (*_partition(request.relation), (names.LIVE, live)))


def _settled_statics(request: Reduction, statics: Node, facts: Facts) -> Node:
    """Statics without the cells that a deletion hides (D1): the deletion may leave, and they must not show again."""
    deletions = next((node for kind, node in facts if kind is FactKind.PARTITION), None)
    if deletions is None:
        return statics
    left = tuple((name, col(name, "l")) for name in statics.output())
    cover: Expr = Field(col(names.DELETED, "r"), WRITTEN)
    on = request.identities(FactKind.PARTITION)
    covered = Join("statics_and_deletions", statics.grain, statics, deletions, JoinKind.LEFT, on, (*left, (names.COVER, cover)))
    kept: dict[str, Expr] = {}
    for column in request.schema.statics:
        own = Field(Field(col(physical_name(column.name)), DELETION), WRITTEN) if column.type.is_multicell else Lit(None)
        kept |= dict(filtered(statics.output(), [column], uncovered(col(names.COVER), own)))
    return Select("settled_statics", statics.grain, covered, tuple((n, kept.get(n, col(n))) for n in statics.output()))
