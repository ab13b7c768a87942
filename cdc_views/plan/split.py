"""Reading a state without reducing it again: keys that no fact since its base touches show as they are.

The base holds each row key once, and in a row's deletion the largest that covers it (`compact`). So a row that is not
touched needs no group-by, no join with its partition, and no shuffle. A partition with static cells counts as touched:
its rows show them, and whether they show alone depends on the rows (rule W3).
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc_views.facts import FactKind
from cdc_views.naming import physical_name
from cdc_views.plan import names
from cdc_views.plan.expr import Expr, Field, Named, col
from cdc_views.plan.nodes import Join, JoinKind, Node, Source, UnionAll
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.reduce import displayed, kept_elements, single_cells, with_elements
from cdc_views.plan.reduction import Reduction
from cdc_views.schema import Column


def is_touched(request: Reduction) -> bool:
    """Whether any row of the base may need reducing, or there are rows besides it."""
    return request.split is not None and (request.split.has_fresh or _has_statics(request))


def touched_facts(request: Reduction, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None) -> Node:
    """Return the facts about rows that need reducing: the fresh ones, and those of the base that they touch."""
    assert request.split is not None
    wanted = tuple(kinds)
    fresh = request.scan(f"{name}_since", kinds=wanted, columns=columns, where=where, source=Source.FRESH)
    base = request.scan(f"{name}_of_base", kinds=wanted, columns=columns, where=where, source=Source.BASE)
    if not is_touched(request):
        return base
    parts: list[Node] = []
    if request.split.has_fresh:
        parts += [fresh, _joined(request, base, _touched_rows(request), kind=JoinKind.SEMI)]
    if _has_touched_partitions(request):
        # a row touched both ways comes twice, which changes nothing
        parts.append(_joined(request, base, _touched_partitions(request), kind=JoinKind.SEMI))
    return UnionAll(name, base.grain, tuple(parts))


def untouched_rows(request: Reduction, source: Source) -> Node:
    """Return rows of a part of the base that need no reducing, in the columns of `reduce_rows`."""
    return untouched_facts(request, f"{source.value}_rows", _columns(request), source)


def _columns(request: Reduction) -> Named:
    schema = request.schema
    keys = dict.fromkeys(request.row_keys() + displayed(schema.row_key))
    return (
        *((key, col(key)) for key in keys),
        (names.LIVE, col(names.LIVE)),
        (names.DELETED, Field(col(names.DELETED), WRITTEN)),
        *_cells(request),
    )


def untouched_facts(request: Reduction, name: str, columns: Named, source: Source) -> Node:
    """Return `columns`, row keys among them, of the rows in a part of the base that need no reducing."""
    assert request.split is not None
    rows: Node = request.scan(name, kinds=[FactKind.ROW], columns=columns, source=source)
    if request.split.has_fresh:
        rows = _joined(request, rows, _touched_rows(request), kind=JoinKind.ANTI)
    if _has_touched_partitions(request):
        rows = _joined(request, rows, _touched_partitions(request), kind=JoinKind.ANTI)
    return rows


def _cells(request: Reduction) -> Named:
    # rows have no static cells: those of their partition are none, but the columns have their types
    columns: list[tuple[str, Expr]] = []
    for column in request.reducible(request.schema.regulars + request.schema.statics):
        stored = col(physical_name(column.name))
        columns += [(name, request.cell(column, cell)) for name, cell, _ in single_cells(column, stored)]
        if column.type.is_multicell:
            columns.append((names.deletion_of(column.name), Field(Field(stored, "deletion"), WRITTEN)))
    for column in with_elements(request, request.schema.regulars + request.schema.statics):
        columns.append((names.cells_of(column.name), _elements(request, column)))
    return tuple(columns)


def _elements(request: Reduction, column: Column) -> Expr:
    return kept_elements(request, column, Field(col(physical_name(column.name)), "cells"))


def _has_statics(request: Reduction) -> bool:
    """Whether the base may hold static cells that rows show; a state's rows do not hold them."""
    assert request.split is not None
    return bool(request.schema.statics) and request.split.has_judged and not request.is_whole


def _has_touched_partitions(request: Reduction) -> bool:
    assert request.split is not None
    has_scopes = request.split.has_fresh and request.split.has_scopes
    return bool(request.schema.clustering) and (has_scopes or _has_statics(request))


def _touched_rows(request: Reduction) -> Node:
    """Row keys that fresh facts are about."""
    kinds = [FactKind.ROW] if request.schema.clustering else [FactKind.ROW, FactKind.PARTITION]
    return _keys(request, "touched_rows", [(kinds, Source.FRESH)], request.identities(FactKind.ROW))


def _touched_partitions(request: Reduction) -> Node:
    """Partitions that fresh deletions of partitions and ranges are about, and those with static cells that rows show."""
    assert request.split is not None
    has_statics = _has_statics(request)
    kinds = [FactKind.PARTITION, FactKind.RANGE, *[FactKind.STATIC] * has_statics]
    scans = [(kinds, Source.FRESH)] if request.split.has_fresh else []
    scans += [([FactKind.STATIC], Source.JUDGED)] if has_statics else []
    return _keys(request, "touched_partitions", scans, request.identities(FactKind.PARTITION))


def _keys(request: Reduction, name: str, scans: list[tuple[list[FactKind], Source]], keys: tuple[str, ...]) -> Node:
    """Keys of facts, as often as there are facts: what joins them only asks whether there is one."""
    columns = tuple((key, col(key)) for key in keys)
    found = [
        request.scan(f"{name}_by_{source.value}_facts" if scans[1:] else name, kinds=kinds, columns=columns, source=source)
        for kinds, source in scans
    ]
    return found[0] if len(found) == 1 else UnionAll(name, found[0].grain, tuple(found))


def _joined(request: Reduction, rows: Node, touched: Node, *, kind: JoinKind) -> Node:
    assert request.split is not None
    columns = tuple((name, col(name, "l")) for name in rows.output())
    name = f"{rows.name}_{'not_' if kind is JoinKind.ANTI else ''}in_{touched.name}"
    # partitions with static cells may be as many as there are partitions
    is_small = request.split.is_fresh_small and not (touched.name == "touched_partitions" and _has_statics(request))
    return Join(
        name,
        rows.grain,
        rows,
        touched,
        kind,
        touched.output(),
        columns,
        is_null_safe=True,
        is_right_small=is_small,
    )


__all__ = ["is_touched", "touched_facts", "untouched_facts", "untouched_rows"]
