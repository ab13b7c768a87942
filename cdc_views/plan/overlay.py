"""Rows of a state's base beside what is newer than all of it, merged without a group-by and without their write times.

Where every fresh fact was written after every fact of the base, a fresh cell wins (C2.1) and a fresh deletion covers what
the base has (D1): nothing has to be compared. So a plain row of the base is read once, as its values alone, whether
fresh facts are about it or not.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_views.facts import FactKind
from cdc_views.plan import names
from cdc_views.plan.expr import Case, Expr, Field, Lit, Struct, col, either, not_null
from cdc_views.plan.nodes import Join, JoinKind, Node, Select, Source
from cdc_views.plan.order import RANK, WRITTEN, is_eternal, shows
from cdc_views.plan.reduce import reduce_rows
from cdc_views.plan.reduction import Reduction
from cdc_views.plan.show import Showing, cell_columns, covered_rows, judged_cells, plain_shows, shown_keys, shown_values
from cdc_views.plan.split import base_rows
from cdc_views.schema import TableSchema
from cdc_views.types import LogicalType

_MARKER = "_marker_shows"


def overlaid(request: Showing, reduction: Reduction) -> Node:
    """Return what the base's plain rows show, with the fresh facts about them; only where `split.is_overlaid`."""
    assert reduction.split is not None
    base = base_rows(reduction, Source.PLAIN)
    fresh = _fresh(request, replace(reduction, split=replace(reduction.split, is_fresh_only=True)))
    on = reduction.identities(FactKind.ROW)
    kept = tuple((name, col(name, "l")) for name in base.output())
    beside = tuple((_since(name), col(name, "r")) for name in fresh.output() if name not in on)
    columns = (*kept, *beside)
    joined = Join(
        "plain_rows_and_since", "row key", base, fresh, JoinKind.LEFT, on, columns, is_null_safe=True, is_right_small=True
    )
    merged = _merged(request, joined, reduction)
    values = shown_values(request, reduction.schema.regulars + reduction.schema.statics)
    shown = (*shown_keys(reduction.schema.row_key), *values, (names.IS_ROW, Lit(True)))
    return Select("overlaid_rows", "visible row", merged, shown, _exists(request, reduction.schema))


def _fresh(request: Showing, reduction: Reduction) -> Node:
    """Fresh facts alone, reduced and judged: per row key its cells, whether each shows, and its deletion."""
    judging = replace(request, is_settled=False, is_plain=False)
    covered = covered_rows(judging, reduce_rows(reduction), partitions=None, table=None)
    judged = judged_cells(judging, covered, columns=reduction.schema.regulars, scope=judging.scope)
    marker = shows(col(names.LIVE), deletion=judging.scope, now=request.now)
    columns = tuple((name, col(name)) for name in judged.output())
    return Select("judged_since", "row key", judged, (*columns, (_MARKER, marker)))


def _merged(request: Showing, joined: Join, reduction: Reduction) -> Node:
    """Of each cell the fresh one where there is one or a fresh deletion covers the base's, and whether it shows."""
    values: dict[str, Expr] = {}
    for column in reduction.schema.regulars:
        for name, kind in cell_columns(column):
            values |= _cell(request, name, kind)
    kept = {name: col(name) for name in joined.left.output() if name not in values}
    replaced = _is_replaced(names.LIVE)
    marker = Case(((replaced, col(_since(_MARKER))),), is_eternal(Field(col(names.LIVE), RANK)))
    return Select("merged_rows", "row key", joined, (*kept.items(), *values.items(), (_MARKER, marker)))


def _cell(request: Showing, name: str, kind: LogicalType) -> dict[str, Expr]:
    replaced, mine, since = _is_replaced(name), col(name), col(_since(name))
    fields = request.shape.payload(kind)
    is_read = name in {n for column in request.columns for n, _ in cell_columns(column)}
    cell = Struct(tuple((f, Case(((replaced, Field(since, f)),), Field(mine, f))) for f in fields))
    shown = Case(((replaced, col(_since(names.shows(name)))),), plain_shows(mine, fields))
    return {**({name: cell} if is_read else {}), names.shows(name): shown}


def _is_replaced(name: str) -> Expr:
    return either(not_null(Field(col(_since(name)), WRITTEN)), not_null(col(_since(names.SCOPE))))


def _exists(request: Showing, schema: TableSchema) -> Expr:
    """Rule W2."""
    if request.shape.rows_always_have_markers:
        return col(_MARKER)
    return either(col(_MARKER), *(col(names.shows(n)) for c in schema.regulars for n, _ in cell_columns(c)))


def _since(name: str) -> str:
    return f"_since{name}" if name.startswith("_") else f"_since_{name}"


__all__ = ["overlaid"]
