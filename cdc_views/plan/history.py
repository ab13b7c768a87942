"""The plan of a history: one row per version of a row.

At each instant of a row (see `timeline`), a window finds the largest cells so far: the winners. The second half of a view's
plan decides what shows. Neighbouring instants that show the same are one version. So the work grows with the number of facts,
not with its square. There are two exceptions, both few: elements of collections are joined with each instant of their life,
and rows with all deletions of their partition (rule D2).
"""

from __future__ import annotations

from dataclasses import replace

from cdc_views.model.schema import Column
from cdc_views.plan import names
from cdc_views.plan.expr import (
    FALSE,
    TRUE,
    Agg,
    Call,
    Case,
    Each,
    Expr,
    Fold,
    Greatest,
    Item,
    Keep,
    Lit,
    Op,
    Over,
    Struct,
    Window,
    coalesce,
    col,
    cols,
    either,
    equal,
    is_null,
    largest,
    lists,
    when,
)
from cdc_views.plan.nodes import Aggregate, Join, JoinKind, LatestCells, Node, Select, UnionAll, beside, together
from cdc_views.plan.order import WRITTEN
from cdc_views.plan.reduce import (
    Cells,
    collected,
    display_folds,
    displayed,
    is_of,
    range_of,
    reduce_single_cells,
    reduced_elements,
    with_elements,
)
from cdc_views.plan.representation import exact_name
from cdc_views.plan.show import Showing, range_deletion, static_rows, visible_rows
from cdc_views.plan.timeline import Timeline
from cdc_views.rules.facts import FactKind

_VISIBLE, _STEP, _ROWS_THERE = "_visible", "_step", "_rows_there"
_TOLD, _TOLD_BEFORE = "_told", "_told_before"
_UNTIL = "_until"
_PARTITION_DELETIONS, _TABLE_DELETIONS = "_partition_deletions", "_table_deletions"
_INSTANT = (names.INSTANT,)
_AT = (col(names.INSTANT),)
_ROW_GRAIN, _PARTITION_GRAIN = "row key and instant", "partition and instant"


def versions(request: Timeline, showing: Showing) -> Node:
    """Return one row per version: the columns of a view, and the instants that it is valid from and to.

    `showing.now` is the column `names.NOW_RANK`. `VALID_TO` is null for the versions that a view shows at the last clock.
    Deletions and statics of a partition change its rows too, so their instants are instants of every row.
    """
    instants = _scope_instants(request) if request.schema.clustering else None
    rows = _rows(request, instants)
    if instants is None or not request.schema.statics:
        covered = _covered_by_instant(request, rows, of_rows=True)
        shown: Node = _at_each_instant(visible_rows(showing, covered, has_statics=False), "rows_by_instant")
    else:
        statics = _statics(request, rows, instants)
        rows_and_statics = beside("rows_and_statics", rows, statics, request.identities(FactKind.PARTITION))
        covered = _covered_by_instant(request, rows_and_statics, of_rows=True)
        shown = _at_each_instant(visible_rows(showing, covered, has_statics=True), "rows_by_instant")
        partitions = _covered_by_instant(request, statics, of_rows=False)
        shown = _with_statics_alone(request, showing, shown, partitions=partitions)
    found = _collapsed(request, showing, shown)
    # a log position is no time, so add when the version landed (S2)
    return _with_landing(request, found) if request.relation.is_whole_row else found


def _rows(request: Timeline, instants: Node | None) -> Node:
    """One row per row key and instant (of the row, its partition or its table): winners and largest deletions so far."""
    own = reduce_single_cells(request)
    parts: list[Node] = [Select("own_instants", _ROW_GRAIN, own, cols(own.output()))]
    if instants is not None:
        parts.append(_untouched(request, own, instants, on=request.owners(FactKind.PARTITION)))
    if request.relation.is_whole_row:  # S6
        parts.append(_untouched(request, own, _table_instants(request), on=()))
    shown = displayed(request.schema.row_key)
    rows: Node = _so_far(together("row_instants", parts), request.owners(FactKind.ROW), keys=request.row_keys(), shown=shown)
    for column in with_elements(request, request.schema.regulars):
        rows = _with_elements(request, rows, column, kind=FactKind.ROW)
    return rows


def _untouched(request: Timeline, own: Node, instants: Node, *, on: tuple[str, ...]) -> Node:
    """The rows at instants of their partition or table, where no fact writes them, in the columns of `own`."""
    keys = request.of_rows()
    rows = Aggregate("row_keys", "row key", own, keys, display_folds(request.schema.row_key, keys))
    columns = (*cols(rows.output(), "l"), *cols(_INSTANT, "r"))
    kind = JoinKind.INNER if on else JoinKind.CROSS
    joined = Join(f"rows_at_{instants.name}", _ROW_GRAIN, rows, instants, kind, on, columns)
    kept = dict(cols(joined.output()))
    values = tuple((name, kept.get(name, Lit(None))) for name in own.output())
    return Select(f"nothing_at_{instants.name}", _ROW_GRAIN, joined, values)


def _so_far(source: Node, owner: tuple[str, ...], *, keys: tuple[str, ...], shown: tuple[str, ...] = ()) -> Select:
    """The largest values so far, which are the winners (rule C2); the columns `shown` have a key's least spelling (K1)."""
    by = tuple(map(col, owner))

    def value(name: str) -> Expr:
        if name in keys:
            return col(name)
        if name in shown:
            return Over(Window.SMALLEST, col(name), by)
        return Over(Window.LARGEST, col(name), by, _AT)

    return Select(f"{source.name}_so_far", source.grain, source, tuple((name, value(name)) for name in source.output()))


def _with_elements(request: Timeline, owners: Node, column: Column, *, kind: FactKind) -> Node:
    """Join the elements of one multi-cell column, sorted by path (rule W4), to `owners` at each instant."""
    cells, owner, at = names.cells_of(column.name), request.owners(kind), request.identities(kind)
    spans = _spans(request, column, kind=kind)
    instants = Aggregate(f"instants_of{cells}", owners.grain, owners, at, ())
    theirs = [name for name in spans.output() if name not in (*at, _UNTIL)]
    instant, until = col(names.INSTANT, "l"), col(_UNTIL, "r")
    is_there = (col(names.INSTANT, "r") <= instant) & either(is_null(until), instant < until)
    columns, grain = (*cols(at, "l"), *cols(theirs, "r")), f"{owners.grain} and path"
    joined = Join(f"there{cells}", grain, instants, spans, JoinKind.INNER, owner, columns, is_there, is_null_safe=True)
    gathered = Aggregate(f"gathered{cells}", owners.grain, joined, at, ((cells, collected(request, column)),))
    return replace(beside(f"{owners.name}_with{cells}", owners, gathered, at), is_null_safe=True)


def _spans(request: Timeline, column: Column, *, kind: FactKind) -> Select:
    """One row per path and instant that wrote it: the winner so far, valid until the path is written again."""
    keys = request.row_keys() if kind is FactKind.ROW else request.partition_keys()
    latest = reduced_elements(request, column, keys=keys, kind=kind)
    path = names.PATH_KEY
    by = (*map(col, request.owners(kind)), col(path))
    kept = cols((*request.identities(kind), path))
    so_far = ("_cell", Over(Window.LARGEST, col("_cell"), by, _AT))
    shown = tuple((name, Over(Window.SMALLEST, col(name), by, _AT)) for name, _ in latest.folds)
    until = (_UNTIL, Over(Window.AFTER, col(names.INSTANT), by, _AT))
    return Select(f"{latest.name}_so_far", latest.grain, latest, (*kept, so_far, *shown, until))


def _statics(request: Timeline, rows: Node, instants: Node) -> Node:
    """One row per partition and instant (its own or a row's): the winners of static columns so far."""
    statics, keys, at = request.schema.statics, request.partition_keys(), request.identities(FactKind.PARTITION)
    cells = Cells.of(request, statics)
    columns = (*cols(keys), *cells.inputs)
    facts = request.facts("static_facts", kinds=[FactKind.STATIC], columns=columns)
    of_rows = Select("instants_of_rows", _ROW_GRAIN, rows, cols(keys))
    everywhere = UnionAll("instants_of_partitions", _PARTITION_GRAIN, (of_rows, instants))
    once = Aggregate("partition_instants", _PARTITION_GRAIN, everywhere, keys, ())
    own = LatestCells("latest_statics", _PARTITION_GRAIN, facts, keys, cells.cells, cells.folds)
    joined = beside("statics_by_instant", once, own, at)
    found: Node = _so_far(joined, request.owners(FactKind.PARTITION), keys=keys)
    for column in with_elements(request, statics):
        found = _with_elements(request, found, column, kind=FactKind.STATIC)
    return found


def _at_each_instant(shown: Select, name: str) -> Select:
    """All rows of `shown`, without its filter; `_visible` holds whether a row passes it."""
    assert shown.where is not None
    visible = Case(((shown.where, TRUE),), FALSE)
    return Select(name, shown.grain, shown.source, (*shown.columns, *cols(_INSTANT), (_VISIBLE, visible)))


def _with_statics_alone(request: Timeline, showing: Showing, rows: Node, *, partitions: Node) -> Node:
    """Add the static-only rows of partitions at the instants when none of their rows exists (rule W3).

    A running sum of appearing and vanishing rows counts the rows that exist, so no row is joined with another row's instants.
    """
    of_row, of_partition = (tuple(map(col, request.owners(kind))) for kind in (FactKind.ROW, FactKind.PARTITION))
    visible = col(_VISIBLE)
    was_visible = coalesce(Over(Window.BEFORE, visible, of_row, _AT), FALSE)
    comes = visible & ~was_visible
    goes = ~visible & was_visible
    step = Case(((comes, Lit(1)), (goes, Lit(-1))), Lit(0))
    kept = cols(rows.output())
    moving = Select("rows_coming_and_going", rows.grain, rows, (*kept, (_STEP, step)))
    like = tuple(name for name in rows.output() if name not in (names.INSTANT, _VISIBLE))
    alone = _at_each_instant(static_rows(showing, partitions, like=like), "statics_by_instant_alone")
    still = Select("statics_alone", alone.grain, alone, (*kept, (_STEP, Lit(0))))
    every = UnionAll("rows_and_statics_alone", "row key or partition, and instant", (moving, still))
    rows_there = Over(Window.TOTAL, col(_STEP), of_partition, _AT)
    counted = Select("rows_counted", every.grain, every, (*kept, (_ROWS_THERE, rows_there)))
    shows = visible & either(col(names.IS_ROW), equal(col(_ROWS_THERE), 0))
    columns = tuple((name, shows if name == _VISIBLE else col(name)) for name in rows.output())
    return Select("all_by_instant", every.grain, counted, columns)


def _collapsed(request: Timeline, showing: Showing, shown: Node) -> Select:
    """One row per version: an instant that changes the shown values ends one version and begins the next."""
    values = [exact_name(c.name) for c in showing.columns if not c.is_key]
    told = when(col(_VISIBLE), Struct(((_VISIBLE, TRUE), *cols(values))))
    by = (*map(col, request.owners(FactKind.ROW)), col(names.IS_ROW))
    kept = cols(shown.output())
    telling = Select("told", shown.grain, shown, (*kept, (_TOLD, told)))
    before = (_TOLD_BEFORE, Over(Window.BEFORE, col(_TOLD), by, _AT))
    compared = Select("told_again", shown.grain, telling, (*kept, (_TOLD, col(_TOLD)), before))
    differs = ~Call(Op.SAME, (col(_TOLD), col(_TOLD_BEFORE)))
    until = (names.VALID_TO, Over(Window.AFTER, col(names.INSTANT), by, _AT))
    changes = Select("changes", "change of a row", compared, (*kept, until), differs)
    columns = tuple((name, col(name)) for name in shown.output() if name not in (names.INSTANT, _VISIBLE))
    span = ((names.VALID_FROM, col(names.INSTANT)), (names.VALID_TO, col(names.VALID_TO)))
    return Select("versions", "version of a row", changes, (*columns, *span), col(_VISIBLE))


def _with_landing(request: Timeline, found: Node) -> Node:
    """The versions, each with the first landing time of the facts that began it."""
    at = request.identities(FactKind.ROW)
    facts = request.facts("landed_facts", kinds=request.row_kinds, columns=cols((*at, names.LANDED)))
    landed = Aggregate("landed", _ROW_GRAIN, facts, at, ((names.LANDED_FROM, Agg(Fold.MIN, col(names.LANDED))),))
    began = equal(col(names.VALID_FROM, "l"), col(names.INSTANT, "r"))
    columns = (*cols(found.output(), "l"), (names.LANDED_FROM, col(names.LANDED_FROM, "r")))
    on = request.owners(FactKind.ROW)
    return Join("landed_versions", found.grain, found, landed, JoinKind.LEFT, on, columns, began, is_null_safe=True)


def _scope_instants(request: Timeline) -> Node:
    """One row per partition and instant at which facts changed more than one of its rows."""
    kinds = [FactKind.PARTITION, FactKind.RANGE] + [FactKind.STATIC] * bool(request.schema.statics)
    keys = request.partition_keys()
    facts = request.facts("scope_facts", kinds=kinds, columns=cols(keys))
    return Aggregate("scope_instants", "partition and instant", facts, keys, ())


def _table_instants(request: Timeline) -> Node:
    facts = request.facts("table_facts", kinds=[FactKind.TABLE], columns=cols(_INSTANT))
    return Aggregate("table_instants", "truncate", facts, _INSTANT, ())


def _covered_by_instant(request: Timeline, source: Node, *, of_rows: bool) -> Select:
    """`source` (row keys or partitions, and instants) with the largest deletions until then, and the clock."""
    kept = tuple((name, col(name)) for name in source.output() if name != names.DELETED)
    computed: list[tuple[str, Expr]] = [(names.NOW_RANK, request.clock_at_instant())]
    covers: list[Expr] = [col(names.DELETED)] if of_rows else []
    if request.schema.clustering:
        scopes = _scopes(request)
        source = beside(f"{source.name}_and_{scopes.name}", source, scopes, request.owners(FactKind.PARTITION))
        partition = _largest(request, _PARTITION_DELETIONS)
        computed.append((names.PARTITION_DELETED, partition))
        covers += [partition, range_deletion(request.schema, counts=request.so_far(Item()[WRITTEN]))]
    if request.relation.is_whole_row:
        deleted = Struct(((WRITTEN, col(names.DELETED)[WRITTEN]),))
        facts = request.scan("truncate_facts", kinds=[FactKind.TABLE], columns=((_TABLE_DELETIONS, deleted),))
        truncates = Aggregate("truncates", "table", facts, (), lists(_TABLE_DELETIONS))
        source = beside(f"{source.name}_and_{truncates.name}", source, truncates, ())
        computed.append((names.TABLE_DELETED, _largest(request, _TABLE_DELETIONS)))
        covers.append(_largest(request, _TABLE_DELETIONS))
    if of_rows:
        computed.append((names.SCOPE, largest(*covers)))
    return Select(f"covered_{'rows' if of_rows else 'partitions'}_by_instant", source.grain, source, (*kept, *computed))


def _largest(request: Timeline, deletions: str) -> Expr:
    return Greatest(Each(Keep(col(deletions), request.so_far(Item()[WRITTEN])), Item()[WRITTEN]))


def _scopes(request: Timeline) -> Node:
    """One row per partition with deletions: the lists of all its deletions."""
    deleted, keys = col(names.DELETED)[WRITTEN], request.of_partitions()
    partition = when(is_of(FactKind.PARTITION), Struct(((WRITTEN, deleted),)))
    columns = (*cols(keys), (_PARTITION_DELETIONS, partition), (names.RANGES, when(is_of(FactKind.RANGE), range_of(deleted))))
    facts = request.scan("scope_deletions", kinds=[FactKind.PARTITION, FactKind.RANGE], columns=columns)
    return Aggregate("scopes", "partition with deletions", facts, keys, lists(_PARTITION_DELETIONS, names.RANGES))
