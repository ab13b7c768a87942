"""Deletions by instant: which partition deletions, ranges and truncates cover a row at each of its instants (rule D2)."""

from __future__ import annotations

from cdc_views.plan import names
from cdc_views.plan.expr import Agg, Call, Each, Expr, Field, Fold, Greatest, Item, Keep, Lit, Op, Struct, col, not_null, when
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, Node, Select
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.reduce import range_of
from cdc_views.plan.show import range_deletion
from cdc_views.plan.timeline import Timeline
from cdc_views.rules.facts import FactKind

_PARTITION_DELETIONS, _TABLE_DELETIONS = "_partition_deletions", "_table_deletions"


def scope_instants(request: Timeline) -> Node:
    """Return one row per partition and instant of what is about more than one of its rows."""
    kinds = [FactKind.PARTITION, FactKind.RANGE] + [FactKind.STATIC] * bool(request.schema.statics)
    keys = request.partition_keys()
    facts = request.facts("scope_facts", kinds=kinds, columns=tuple((key, col(key)) for key in keys))
    return Aggregate("scope_instants", "partition and instant", facts, keys, ())


def table_instants(request: Timeline) -> Node:
    """Return one row per truncate's position."""
    facts = request.facts("table_facts", kinds=[FactKind.TABLE], columns=((names.INSTANT, col(names.INSTANT)),))
    return Aggregate("table_instants", "truncate", facts, (names.INSTANT,), ())


def covered_by_instant(request: Timeline, source: Node, *, of_rows: bool) -> Select:
    """Return `source` (row keys or partitions, and instants) with the largest deletions until then, and the clock.

    Every deletion of a partition stands beside each of its rows: there are few, and a view's plan does so with ranges.
    """
    kept = tuple((name, col(name)) for name in source.output() if name != names.DELETED)
    computed: list[tuple[str, Expr]] = [(names.CLOCK, request.clock_at_instant())]
    covers: list[Expr] = [col(names.DELETED)] if of_rows else []
    if request.schema.clustering:
        source = _beside(source, _scopes(request), on=request.owners(FactKind.PARTITION))
        partition = _largest(request, _PARTITION_DELETIONS)
        computed.append((names.PARTITION_DELETED, partition))
        covers += [partition, range_deletion(request.schema, counts=_counts(request))]
    if request.relation.is_whole_row:
        source = _beside(source, _truncates(request), on=())
        computed.append((names.TABLE_DELETED, _largest(request, _TABLE_DELETIONS)))
        covers.append(_largest(request, _TABLE_DELETIONS))
    if of_rows:
        computed.append((names.SCOPE, Call(Op.GREATEST, tuple(covers)) if len(covers) > 1 else covers[0]))
    return Select(f"covered_{'rows' if of_rows else 'partitions'}_by_instant", source.grain, source, (*kept, *computed))


def _counts(request: Timeline) -> Expr:
    counts = request.so_far(Field(Item(), WRITTEN))
    assert counts is not None
    return counts


def _largest(request: Timeline, deletions: str) -> Expr:
    return Greatest(Each(Keep(col(deletions), _counts(request)), Field(Item(), WRITTEN)))


def _beside(source: Node, deletions: Node, *, on: tuple[str, ...]) -> Join:
    theirs = [name for name in deletions.output() if name not in source.output()]
    columns = (*((n, col(n, "l")) for n in source.output()), *((n, col(n, "r")) for n in theirs))
    kind = JoinKind.LEFT if on else JoinKind.CROSS
    return Join(f"{source.name}_and_{deletions.name}", source.grain, source, deletions, kind, on, columns)


def _scopes(request: Timeline) -> Node:
    """One row per partition that has deletions: all of them."""
    deleted = Field(col(names.DELETED), WRITTEN)
    is_partition = Call(Op.EQ, (col(names.KIND), Lit(FactKind.PARTITION.value)))
    is_range = Call(Op.EQ, (col(names.KIND), Lit(FactKind.RANGE.value)))
    keys = request.of_partitions()
    facts = request.scan(
        "scope_deletions",
        kinds=[FactKind.PARTITION, FactKind.RANGE],
        columns=(
            *((key, col(key)) for key in keys),
            (_PARTITION_DELETIONS, when(is_partition, Struct(((WRITTEN, deleted),)))),
            (names.RANGES, when(is_range, range_of(deleted))),
        ),
    )
    lists = (_PARTITION_DELETIONS, names.RANGES)
    folds = tuple((name, Agg(Fold.COLLECT, col(name), not_null(col(name)))) for name in lists)
    return Aggregate("scopes", "partition with deletions", facts, keys, folds)


def _truncates(request: Timeline) -> Node:
    """One row: every truncate."""
    deleted = Struct(((WRITTEN, Field(col(names.DELETED), WRITTEN)),))
    facts = request.scan("truncate_facts", kinds=[FactKind.TABLE], columns=((_TABLE_DELETIONS, deleted),))
    fold = Agg(Fold.COLLECT, col(_TABLE_DELETIONS), not_null(col(_TABLE_DELETIONS)))
    return Aggregate("truncates", "table", facts, (), ((_TABLE_DELETIONS, fold),))
