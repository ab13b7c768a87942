"""A state's rows joined with fresh facts that are all newer: one pass over the state, without its write times.

If every fresh fact is newer than the whole state (`Parts.is_fresh_newer`), write times decide nothing: a fresh cell beats
the stored one (C2.1), a fresh deletion covers it, and an old deletion covers no fresh cell (D1). So each cell shows its fresh
value if there is one, and otherwise the stored row's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.plan import names
from cdc_views.plan.expr import FALSE, TRUE, Case, Expr, Named, coalesce, col, cols, either, is_null, not_null
from cdc_views.plan.nodes import Join, JoinKind, Node, Select, together
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.parts import Source
from cdc_views.plan.reduce import displayed, reduce_rows
from cdc_views.plan.reduction import Reduction
from cdc_views.plan.show import Showing, covered_rows, shown_keys, shown_values, telling_form, visible_rows
from cdc_views.rules.facts import FactKind

_TOLD_MARKER = "_told_marker"
"""Whether fresh facts have a row marker."""


def shows_by_cell(showing: Showing, request: Reduction, *, joins_fully: bool) -> bool:
    """Return whether `rows_by_cell` applies: fresh facts are newer and only about rows, and each column is one cell.

    Without a full join, the fresh rows must be few enough to broadcast. Keys must show as they compare: a view shows the least
    of equal keys with different bytes, and either side may have it (K1).
    """
    split, schema = request.split, request.schema
    if split is None or not split.has(Source.FRESH) or not split.is_fresh_newer or showing.tells_expiry:
        return False
    if split.of(Source.FRESH).statistics.has_scopes:  # D2: such a deletion covers rows that no fresh fact names
        return False
    if not (joins_fully or split.is_small(Source.FRESH, columns=len(schema.columns))):
        return False
    # W3, W4: statics are shared by rows, and elements of a collection merge one by one
    is_simple = not schema.statics and not any(column.type.is_multicell for column in schema.regulars)
    return is_simple and set(displayed(schema.row_key)) <= set(request.row_keys())


def rows_by_cell(showing: Showing, request: Reduction, stored: Sequence[Node], *, joins_fully: bool) -> Node:
    """Return the visible rows; `stored` are all rows of each part of the state, with `Showing.tells_parts`."""
    fresh = _fresh_rows(showing, request)
    if joins_fully:
        return _beside_fresh(showing, request, together("rows", stored, grain="row key"), fresh, kind=JoinKind.FULL)
    # part by part: Spark would copy each row, with every column that only few rows need, into a union below the join
    shown = [_beside_fresh(showing, request, rows, fresh, kind=JoinKind.LEFT) for rows in stored]
    return together("rows_by_cell", [*shown, _new_rows(request, fresh, like=shown[0])])


def _beside_fresh(showing: Showing, request: Reduction, rows: Node, fresh: Node, *, kind: JoinKind) -> Node:
    """The visible rows of `rows` with the newer cells of `fresh`; with a full join, also the rows that only `fresh` has."""
    assert request.split is not None
    is_small = request.split.is_small(Source.FRESH, columns=len(request.schema.columns))
    names_of_keys = dict(shown_keys(request.schema.row_key))
    is_full = kind is JoinKind.FULL
    keys = tuple((n, coalesce(col(n, "l"), col(n, "r")) if is_full else col(n, "l")) for n in names_of_keys)
    shown = showing.shown(showing.schema.regulars)
    values = tuple((n, _newer(_told(column), n)) for column in shown for n, _ in shown_values(showing, [column]))
    columns = (*keys, *values, (names.IS_ROW, TRUE), (names.EXISTS, _exists(showing)))
    on = request.identities(FactKind.ROW)
    name = f"{rows.name}_by_cell"
    joined = Join(name, "row key", rows, fresh, kind, on, columns, is_null_safe=True, is_right_small=is_small)
    kept = cols(name for name in joined.output() if name != names.EXISTS)
    return Select(f"shown_{rows.name}", "visible row", joined, kept, col(names.EXISTS))


def _fresh_rows(showing: Showing, request: Reduction) -> Select:
    """The rows that fresh facts alone show, and columns for whether they have each cell (C5: a tombstone is one)."""
    newest = reduce_rows(replace(request, split=None, rows_from=Source.FRESH))
    rows = visible_rows(showing, covered_rows(showing, newest, partitions=None, table=None), has_statics=False)
    told: Named = tuple((_told(c), not_null(col(physical_name(c.name))[WRITTEN])) for c in showing.judged)
    told += ((_TOLD_MARKER, not_null(col(names.LIVE)[WRITTEN])), (names.SCOPE, col(names.SCOPE)))
    return replace(rows, name="fresh_rows", grain="row key", columns=rows.columns + told)


def _new_rows(request: Reduction, fresh: Node, *, like: Node) -> Node:
    """The visible rows of the keys that only fresh facts have."""
    assert request.split is not None
    on, is_small = request.identities(FactKind.ROW), request.split.is_small(Source.FRESH)
    facts = request.scan("fresh_row_facts", kinds=[FactKind.ROW], columns=cols(on), source=Source.FRESH)
    # part by part: most parts are known to hold nothing but rows
    have = request.keys_of("keys_of_state", [((FactKind.ROW,), place) for place in request.split.places()], FactKind.ROW)
    known = Join(
        "known_keys", "row key", have, facts, JoinKind.SEMI, on, cols(on, "l"), is_null_safe=True, is_right_small=is_small
    )
    found = cols(fresh.output(), "l")
    new = Join("new_keys", "row key", fresh, known, JoinKind.ANTI, on, found, is_null_safe=True, is_right_small=is_small)
    return Select("new_rows", "visible row", new, cols(like.output()), col(names.EXISTS))


def _exists(showing: Showing) -> Expr:
    """Rule W2 for rows with fresh facts; other rows exist as before."""
    cells = () if showing.relation.is_whole_row else showing.judged
    exists = either(_newer(_TOLD_MARKER, names.HAS_MARKER), *(_any_shows(showing, column) for column in cells))
    is_untouched = is_null(col(_TOLD_MARKER, "r"))
    return coalesce(Case(((is_untouched, col(names.EXISTS, "l")),), exists), FALSE)


def _any_shows(showing: Showing, column: Column) -> Expr:
    form = telling_form(showing, column)
    told = _told(column)
    return not_null(_newer(told, form)) if form is not None else _newer(told, names.shows(physical_name(column.name)))


def _newer(told: str, name: str) -> Expr:
    """The newer value if there is one (C2.1); else the stored one, unless a newer deletion covers it (D1)."""
    return Case(((col(told, "r"), col(name, "r")), (is_null(col(names.SCOPE, "r")), col(name, "l"))))


def _told(column: Column) -> str:
    return f"_told_of_{physical_name(column.name)}"
