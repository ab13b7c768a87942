"""Reading a state without reducing it again: keys that no fact since its base touches show as they are.

The base holds each row key once, and in a row's deletion the largest that covers it (`compact`). So a row that is not
touched needs no group-by, no join with its partition, and no shuffle.
"""

from __future__ import annotations

from collections.abc import Iterable

from cdc_views.facts import FactKind
from cdc_views.naming import physical_name
from cdc_views.plan import names
from cdc_views.plan.expr import Expr, Field, Named, col
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, Node, Source, UnionAll
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.reduce import displayed, kept_elements, single_cells, with_elements
from cdc_views.plan.reduction import Reduction
from cdc_views.schema import Column


def touched_facts(
    request: Reduction, name: str, *, kinds: Iterable[FactKind], columns: Named, where: Expr | None
) -> Node:
    """Return the facts about rows that need reducing: the fresh ones, and those of the base that they touch."""
    assert request.split is not None
    wanted = tuple(kinds)
    base = request.scan(f"{name}_of_base", kinds=wanted, columns=columns, where=where, source=Source.BASE)
    if not request.split.has_fresh:
        return base
    fresh = request.scan(f"{name}_since", kinds=wanted, columns=columns, where=where, source=Source.FRESH)
    parts: list[Node] = [fresh, _joined(request, base, _touched_rows(request), kind=JoinKind.SEMI)]
    if request.schema.clustering and request.split.has_scopes:
        # a row touched both ways comes twice, which changes nothing
        parts.append(_joined(request, base, _touched_partitions(request), kind=JoinKind.SEMI))
    return UnionAll(name, base.grain, tuple(parts))


def untouched_rows(request: Reduction) -> Node:
    """Return the base's rows that no fresh fact touches, in the columns of `reduce_rows`."""
    schema = request.schema
    keys = dict.fromkeys(request.row_keys() + displayed(schema.row_key))
    columns = (
        *((key, col(key)) for key in keys),
        (names.LIVE, col(names.LIVE)),
        (names.DELETED, Field(col(names.DELETED), WRITTEN)),
        *_cells(request),
    )
    return untouched_facts(request, "base_rows", columns)


def untouched_facts(request: Reduction, name: str, columns: Named) -> Node:
    """Return `columns`, row keys among them, of the base's rows that no fresh fact touches."""
    assert request.split is not None
    rows: Node = request.scan(name, kinds=[FactKind.ROW], columns=columns, source=Source.BASE)
    if request.split.has_fresh:
        rows = _joined(request, rows, _touched_rows(request), kind=JoinKind.ANTI)
        if request.schema.clustering and request.split.has_scopes:
            rows = _joined(request, rows, _touched_partitions(request), kind=JoinKind.ANTI)
    return rows


def _cells(request: Reduction) -> Named:
    columns: list[tuple[str, Expr]] = []
    for column in request.reducible(request.schema.regulars):
        stored = col(physical_name(column.name))
        columns += [(name, request.cell(column, cell)) for name, cell, _ in single_cells(column, stored)]
        if column.type.is_multicell:
            columns.append((names.deletion_of(column.name), Field(Field(stored, "deletion"), WRITTEN)))
    for column in with_elements(request, request.schema.regulars):
        columns.append((names.cells_of(column.name), _elements(request, column)))
    return tuple(columns)


def _elements(request: Reduction, column: Column) -> Expr:
    return kept_elements(request, column, Field(col(physical_name(column.name)), "cells"))


def _touched_rows(request: Reduction) -> Node:
    """Row keys that fresh facts are about."""
    kinds = [FactKind.ROW] if request.schema.clustering else [FactKind.ROW, FactKind.PARTITION]
    return _distinct(request, "touched_rows", kinds, request.identities(FactKind.ROW))


def _touched_partitions(request: Reduction) -> Node:
    """Partitions that fresh deletions of partitions and ranges are about."""
    kinds = [FactKind.PARTITION, FactKind.RANGE]
    return _distinct(request, "touched_partitions", kinds, request.identities(FactKind.PARTITION))


def _distinct(request: Reduction, name: str, kinds: list[FactKind], keys: tuple[str, ...]) -> Node:
    columns = tuple((key, col(key)) for key in keys)
    facts = request.scan(f"{name}_of_facts", kinds=kinds, columns=columns, source=Source.FRESH)
    return Aggregate(name, name.removeprefix("touched_").removesuffix("s"), facts, keys, ())


def _joined(request: Reduction, rows: Node, touched: Node, *, kind: JoinKind) -> Node:
    assert request.split is not None
    columns = tuple((name, col(name, "l")) for name in rows.output())
    name = f"{rows.name}_{'not_' if kind is JoinKind.ANTI else ''}in_{touched.name}"
    return Join(
        name,
        rows.grain,
        rows,
        touched,
        kind,
        touched.output(),
        columns,
        is_null_safe=True,
        is_right_small=request.split.is_fresh_small,
    )


__all__ = ["touched_facts", "untouched_facts", "untouched_rows"]
