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
from cdc_views.plan.expr import FALSE, TRUE, Case, Expr, Lit, Named, coalesce, col, cols, either, is_null, not_null
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, Node, Select, together
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
    assert request.split is not None
    on = request.identities(FactKind.ROW)
    is_small = request.split.is_small(Source.FRESH, columns=len(request.schema.columns))
    fresh = _fresh_rows(showing, request)
    parts = [*stored] if joins_fully else [*stored, _rows_to_come(request, like=stored[0])]
    rows = together("rows", parts, grain="row key")
    names_of_keys = dict(shown_keys(request.schema.row_key))
    keys = tuple((n, coalesce(col(n, "l"), col(n, "r")) if joins_fully else col(n, "l")) for n in names_of_keys)
    shown = showing.shown(showing.schema.regulars)
    values = tuple((n, _newer(_told(column), n)) for column in shown for n, _ in shown_values(showing, [column]))
    columns = (*keys, *values, (names.IS_ROW, TRUE), (names.EXISTS, _exists(showing)))
    kind = JoinKind.FULL if joins_fully else JoinKind.LEFT
    joined = Join("rows_by_cell", "row key", rows, fresh, kind, on, columns, is_null_safe=True, is_right_small=is_small)
    kept = cols(name for name in joined.output() if name != names.EXISTS)
    return Select("visible_rows", "visible row", joined, kept, col(names.EXISTS))


def _fresh_rows(showing: Showing, request: Reduction) -> Select:
    """The rows that fresh facts alone show, and columns for whether they have each cell (C5: a tombstone is one)."""
    newest = reduce_rows(replace(request, split=None, rows_from=Source.FRESH))
    rows = visible_rows(showing, covered_rows(showing, newest, partitions=None, table=None), has_statics=False)
    told: Named = tuple((_told(c), not_null(col(physical_name(c.name))[WRITTEN])) for c in showing.judged)
    told += ((_TOLD_MARKER, not_null(col(names.LIVE)[WRITTEN])), (names.SCOPE, col(names.SCOPE)))
    return replace(rows, name="fresh_rows", grain="row key", columns=rows.columns + told)


def _rows_to_come(request: Reduction, *, like: Node) -> Node:
    """Empty rows of the keys that only fresh facts have."""
    assert request.split is not None
    on, is_small = request.identities(FactKind.ROW), request.split.is_small(Source.FRESH)
    keys = cols(request.row_keys())
    facts = request.scan("fresh_row_facts", kinds=[FactKind.ROW], columns=keys, source=Source.FRESH)
    fresh = Aggregate("fresh_keys", "row key", facts, request.row_keys(), ())
    # part by part: most parts are known to hold nothing but rows
    have = request.keys_of("keys_of_state", [((FactKind.ROW,), place) for place in request.split.places()], FactKind.ROW)
    found = cols(on, "l")
    known = Join("known_keys", "row key", have, facts, JoinKind.SEMI, on, found, is_null_safe=True, is_right_small=is_small)
    left = cols(fresh.output(), "l")
    new = Join("new_keys", "row key", fresh, known, JoinKind.ANTI, on, left, is_null_safe=True, is_right_small=is_small)
    values: dict[str, Expr] = {**dict(shown_keys(request.schema.row_key)), names.IS_ROW: TRUE}
    return Select("rows_to_come", "row key", new, tuple((name, values.get(name, Lit(None))) for name in like.output()))


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
