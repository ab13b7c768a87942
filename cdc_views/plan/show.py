"""The second half of a plan: reduced rows → the rows that a read at `now` shows (rules C4, D1, D2, W2, W3, W4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdc_views.model.naming import bound_name, physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import LogicalType, is_text
from cdc_views.plan import names
from cdc_views.plan.expr import (
    FALSE,
    TRUE,
    AnyOver,
    Call,
    Case,
    Each,
    Expr,
    Friendly,
    Greatest,
    IsEmpty,
    Item,
    Keep,
    Lit,
    Named,
    Op,
    col,
    cols,
    either,
    equal,
    is_null,
    largest,
    not_null,
    when,
)
from cdc_views.plan.nodes import Node, Select, StepNote, UnionAll, beside, noted, replaced
from cdc_views.plan.order import (
    RANK,
    VALUE,
    WRITTEN,
    cell_expiry,
    elements_expiry,
    is_eternal,
    now_rank,
    shows,
    shows_null,
    survives,
)
from cdc_views.plan.representation import Representation, exact_name
from cdc_views.storage.relation import Relation

_COVERED = StepNote("_cutoff is when it was last deleted (D2)", names.SCOPE)
_BOUNDS = StepNote("bounds of ranges compare in clustering order, one of size 0 is open (D2)", names.SCOPE)
_COVERED_BY_TRUNCATE = StepNote("_cutoff is when it was last deleted or truncated (D2, S6)", names.SCOPE)
_NOW = StepNote("_now_rank is the present as a rank: an expiring cell below it has expired (C4)", names.NOW_RANK)
_LIVES = (
    "lives (C4); of ranks, which encode C2.2 to C2.5, the two lowest never expire, other negative ones are expiry times, those "
    "from 0 on are tombstones"
)
_JUDGED = f"a cell shows if no deletion covers it (D1) and it {_LIVES}"
_SETTLED = f"a cell shows if it {_LIVES}; the state has applied deletions"
_SETTLED_ELEMENTS = f"an element shows if it {_LIVES}; the state has applied deletions"
_EXISTS = "a row exists if its marker _live or any regular cell shows (W2)"
_EXISTS_BY_MARKER = "a row exists if its last write is newer than _cutoff (S1); older cells become null (D1)"
_STATIC_ONLY = "_has_row tells whether a row of its partition exists (W3)"
_SHOWN_ALONE = "a partition's static columns show alone if it has no row (W3)"


@dataclass(frozen=True, slots=True)
class Showing:
    """The columns to show in order, the instant, and the representation.

    `is_settled`: deletions were already applied to the rows, as in a base (D1 to D3). `is_plain`: the rows exist at any
    time, and each single cell shows if it has a value (`compact`). `tells_expiry` adds the time when expiry next changes a row.
    `tells_parts` keeps every row, and adds whether it exists, whether its marker is live, and which cells show.
    """

    relation: Relation
    columns: tuple[Column, ...]
    now: Expr
    representation: Representation
    is_settled: bool = False
    is_plain: bool = False
    tells_expiry: bool = False
    tells_parts: bool = False

    @property
    def schema(self) -> TableSchema:
        """The table's schema, with the types that views show."""
        return self.relation.shown

    @property
    def judged(self) -> tuple[Column, ...]:
        """The regular columns that are shown or decide whether a row exists."""
        # S1: the marker alone decides; a plain row is known to exist
        if self.relation.is_whole_row or (self.is_plain and not self.tells_parts):
            return tuple(self.shown(self.schema.regulars))
        return self.schema.regulars

    @property
    def scope(self) -> Expr:
        """The largest deletion that covers a row (D2); null if deletions were already applied."""
        return Lit(None) if self.is_settled else col(names.SCOPE)

    def shown(self, role_columns: Iterable[Column]) -> list[Column]:
        """Return the columns of `role_columns` that are wanted."""
        wanted = {c.name for c in self.columns}
        return [c for c in role_columns if c.name in wanted]


def show(request: Showing, *, rows: Node, partitions: Node | None, table: Node | None) -> Node:
    """Return the visible rows: one per row key, and one per partition with only live statics (rule W3).

    `partitions` and `table` are None if no such deletions can cover anything.
    """
    has_statics = bool(request.schema.statics) and partitions is not None
    covered = covered_rows(request, rows, partitions=partitions, table=table)
    visible = visible_rows(request, covered, has_statics=has_statics)
    if not has_statics or partitions is None:
        return visible
    if table is not None:  # a truncate covers statics as a partition deletion does
        deleted = largest(col(names.PARTITION_DELETED), col(names.TABLE_DELETED))
        columns = {**dict(cols(partitions.output())), names.PARTITION_DELETED: deleted}
        partitions = Select("covered_partitions", "partition", _beside_table(partitions, table), tuple(columns.items()))
    return _with_static_only(request, visible, partitions=partitions)


def visible_rows(request: Showing, covered: Node, *, has_statics: bool) -> Select:
    """Return the visible rows of row keys from `covered_rows`; the condition is rule W2."""
    judged = judged_cells(request, covered, columns=request.judged, scope=request.scope)
    if request.schema.statics:
        # W3: a row shows its partition's statics, which row and range deletions do not cover (D2)
        scope = _static_scope(request) if has_statics else request.scope
        judged = judged_cells(request, judged, columns=request.schema.statics, scope=scope)
    others = request.schema.regulars + request.schema.statics
    shown = (*shown_keys(request.schema.row_key), *shown_values(request, others), (names.IS_ROW, TRUE))
    columns = (*shown, *_expiry(request, others, has_marker=True), *_parts(request))
    is_kept = request.is_plain or request.tells_parts
    note = _EXISTS_BY_MARKER if request.relation.is_whole_row else _EXISTS
    exists = None if is_kept else _row_exists(request)
    return Select("visible_rows", "visible row", judged, columns, exists, notes=noted("" if is_kept else note))


def _parts(request: Showing) -> Named:
    if not request.tells_parts:
        return ()
    exists = TRUE if request.is_plain else _row_exists(request)
    marker = _lives(request, col(names.LIVE), request.scope)
    if request.is_plain:
        # S1: the row exists, so its marker is live
        marker = TRUE if request.relation.is_whole_row else is_eternal(col(names.LIVE)[RANK])
    # S1: no cell decides whether the row of a whole-row source exists
    deciding = () if request.relation.is_whole_row else request.judged
    hidden = [c for c in deciding if telling_form(request, c) is None]
    shown = cols(names.shows(name) for column in hidden for name, _, _ in names.cells(column))
    return ((names.EXISTS, exists), (names.HAS_MARKER, marker), *shown)


def telling_form(request: Showing, column: Column) -> str | None:
    """Return an output column that is null exactly if the column's one cell does not show; None if there is none."""
    if not request.shown([column]):
        return None
    if request.representation.is_exact:
        return exact_name(column.name)
    # a view of another type also shows null for a live value of 0 bytes, or for an instant out of the type's range (C5)
    return physical_name(column.name) if is_text(column.type) else None


def judged_cells(request: Showing, source: Node, *, columns: tuple[Column, ...], scope: Expr) -> Node:
    """Add whether each single cell shows, and keep the live elements of each multi-cell column (C4, D3)."""
    verdicts: list[tuple[str, Expr]] = []
    elements: dict[str, Expr] = {}
    for column in columns:
        own, is_read = _complex_scope(column, scope), column in request.columns
        for name, _, kind in names.cells(column):
            verdict = _exists_in_time(request, column, own) or _shows(request, col(name), kind, deletion=own, is_read=is_read)
            verdicts.append((names.shows(name), verdict))
        if not names.cells(column):
            cells = names.cells_of(column.name)
            elements[cells] = Keep(col(cells), _lives(request, Item(), own))
    judged = replaced(f"judged_{'partitions' if source.grain == 'partition' else 'rows'}", source, elements)
    note = "" if request.relation.is_whole_row else _judged_note(request, has_elements=bool(elements))
    return replace(judged, columns=(*judged.columns, *verdicts), notes=noted(note))


def _judged_note(request: Showing, *, has_elements: bool) -> str:
    if request.is_plain:
        return _SETTLED_ELEMENTS if has_elements else ""
    return _SETTLED if request.is_settled else _JUDGED


def _shows(request: Showing, cell: Expr, kind: LogicalType, *, deletion: Expr, is_read: bool) -> Expr:
    if not request.is_plain:
        return _lives(request, cell, deletion)
    if is_read and VALUE in request.representation.payload(kind):
        return not_null(cell[VALUE])  # not the bytes: a tombstone may have some
    return is_eternal(cell[RANK])  # the rank is cheaper to read than a value that is not shown


def _exists_in_time(request: Showing, column: Column, deletion: Expr) -> Expr | None:
    """Whether a cell survives, if that alone decides what a view shows: a tombstone's value is null. None if it is not enough."""
    is_enough = request.relation.is_whole_row and deletion != Lit(None) and not request.representation.is_exact
    return survives(col(physical_name(column.name))[WRITTEN], deletion) if is_enough and shows_null(column.type) else None


def _lives(request: Showing, cell: Expr, deletion: Expr) -> Expr:
    """Whether a winning cell or marker shows (C4, D1); null if there is none."""
    if not request.relation.is_whole_row:
        return shows(cell, deletion=deletion, now=request.now)
    lives = cell[RANK] < 0  # S1: nothing expires, so what is no tombstone lives
    return lives if deletion == Lit(None) else survives(cell[WRITTEN], deletion) & lives


def covered_rows(request: Showing, rows: Node, *, partitions: Node | None, table: Node | None) -> Node:
    """Join rows to their partition and the table; `_cutoff` is the largest deletion that covers each row (rule D2)."""
    rows, covers = with_covers(request.schema, rows, partitions=partitions, table=table)
    kept = cols(name for name in rows.output() if name not in (names.DELETED, names.RANGES))
    scope = (names.SCOPE, largest(col(names.DELETED), *covers))
    clock = _clock(request, rows)
    has_ranges = partitions is not None and names.RANGES in partitions.output()
    covered = _COVERED if table is None else _COVERED_BY_TRUNCATE
    notes = noted(covered, _BOUNDS if has_ranges else "", _NOW)
    return Select("covered_rows", "row key", rows, (*kept, scope, *clock), notes=notes)


def _clock(request: Showing, source: Node) -> Named:
    """The column that `Showing.now` reads, unless `source` has it: a view looks at the clock once. Pruned if nothing reads it."""
    if request.now != col(names.NOW_RANK) or names.NOW_RANK in source.output():
        return ()
    return ((names.NOW_RANK, now_rank(Call(Op.NOW))),)


def with_covers(schema: TableSchema, rows: Node, *, partitions: Node | None, table: Node | None) -> tuple[Node, list[Expr]]:
    """Join rows to their partition, which may be missing, and to the table; also return the deletions that cover them (D2)."""
    covers: list[Expr] = []
    if partitions is not None:
        # D2: a partition deletion covers each of its rows, a range deletion those inside its bounds
        rows = beside("rows_and_partitions", rows, partitions, tuple(names.identity(c) for c in schema.partition))
        covers += [col(names.PARTITION_DELETED), range_deletion(schema)]
    if table is not None:
        rows = _beside_table(rows, table)  # S6: a truncate covers every row
        covers.append(col(names.TABLE_DELETED))
    return rows, covers


def _beside_table(rows: Node, table: Node) -> Node:
    return beside(f"{rows.name}_and_table", rows, table, ())


def range_deletion(schema: TableSchema, *, counts: Expr | None = None) -> Expr:
    """Return the largest write time of the range tombstones that cover the row and fulfil `counts` (over `Item()`), or null."""
    starts, ends = (_within(schema, Item()[bound], is_start=bound == names.FROM) for bound in (names.FROM, names.TO))
    inside = starts & ends if counts is None else Call(Op.AND, (counts, starts, ends))
    return Greatest(Each(Keep(col(names.RANGES), inside), Item()[WRITTEN]))


def _within(schema: TableSchema, bound: Expr, *, is_start: bool) -> Expr:
    """Whether the row lies inside one bound: compare column by column until the bound's prefix ends (rule D2)."""
    inside: Expr = bound["inclusive"]
    for index, column in reversed([*enumerate(schema.clustering)]):
        ended: Expr = bound["inclusive"] if index else TRUE  # D2: a bound without a prefix is open
        compared = _compared(column, col(names.identity(column)), bound[bound_name(column.name)], is_start=is_start)
        inside = Case(((bound["size"] <= index, ended), *compared), inside)
    return inside


def _compared(column: Column, ours: Expr, theirs: Expr, *, is_start: bool) -> list[tuple[Expr, Expr]]:
    """Case branches for a key that differs from the bound's; an `EMPTY` key is null and sorts first (K2)."""
    after = is_start != column.descending
    branches: list[tuple[Expr, Expr]] = [(ours > theirs if after else ours < theirs, TRUE), (~equal(ours, theirs), FALSE)]
    if is_text(column.type) or names.identity(column) != physical_name(column.name):
        return branches  # K2: an empty text, and a comparable of 0 bytes, already sort first
    only_ours = is_null(ours) & not_null(theirs)
    only_theirs = not_null(ours) & is_null(theirs)
    return [(only_ours, Lit(not after)), (only_theirs, Lit(after)), *branches]


def _row_exists(request: Showing) -> Expr:
    """Rule W2: after deletions, the row marker or any regular cell is live."""
    marker = _lives(request, col(names.LIVE), request.scope)
    if request.relation.is_whole_row:
        return marker  # S1: every write of a row writes its marker
    return either(marker, *(_any_shows(c) for c in request.schema.regulars))


def _any_shows(column: Column) -> Expr:
    """Whether any cell of a judged column shows; null, not false, if there is no cell."""
    if cells := names.cells(column):
        return either(*(col(names.shows(name)) for name, _, _ in cells))
    return ~IsEmpty(col(names.cells_of(column.name)))


def _complex_scope(column: Column, deletion: Expr) -> Expr:
    """The deletion that covers a column's cells: the larger of the row's and the multi-cell column's own (rule D3)."""
    if not column.type.is_multicell or deletion == Lit(None):
        return deletion
    return largest(deletion, col(names.deletion_of(column.name)))


def shown_keys(columns: Iterable[Column]) -> Named:
    """Return each key column in its stored, compared and shown forms."""
    keys: dict[str, Expr] = {}
    for column in columns:
        keys |= dict(cols((*names.shown_as(column), names.identity(column))))
        keys[names.view_key(column)] = Friendly(col(physical_name(column.name)), column.type)
    return tuple(keys.items())


def shown_values(request: Showing, columns: Iterable[Column]) -> Named:
    """Return the values of the wanted columns after `judged_cells`."""
    return tuple(entry for c in request.shown(columns) for entry in _value(request, c))


def _value(request: Showing, column: Column) -> Named:
    if not column.type.is_multicell:
        cell = col(physical_name(column.name))
        values = request.representation.of_cell(column, cell)
        is_value = all(value == Friendly(cell[VALUE], column.type) for _, value in values)
        if request.is_plain and is_value and shows_null(column.type):
            return values  # a cell of a plain row shows exactly what is stored
    elif fields := names.cells(column):
        values = request.representation.of_fields(column, [(f, col(n), col(names.shows(n)), kind) for n, f, kind in fields])
    else:
        values = request.representation.of_elements(column, col(names.cells_of(column.name)))
    return tuple((name, when(_any_shows(column), value)) for name, value in values)


def _expiry(request: Showing, columns: Iterable[Column], *, has_marker: bool) -> Named:
    """The time when expiry next changes the row. Plain rows expire only in elements; whole-row sources never expire (S1)."""
    if not request.tells_expiry:
        return ()
    expiries: list[Expr] = []
    if has_marker and not request.is_plain:
        expiries.append(cell_expiry(col(names.LIVE), _lives(request, col(names.LIVE), request.scope)))
    for column in () if request.relation.is_whole_row else columns:
        cells = names.cells(column)
        if not cells:
            expiries.append(elements_expiry(col(names.cells_of(column.name))))
        elif not request.is_plain:
            expiries += [cell_expiry(col(name), col(names.shows(name))) for name, _, _ in cells]
    return ((names.SOONEST, largest(*expiries)),)


def _static_scope(request: Showing) -> Expr:
    partition = col(names.PARTITION_DELETED)
    return largest(partition, col(names.TABLE_DELETED)) if request.relation.is_whole_row else partition


def _with_static_only(request: Showing, visible: Node, *, partitions: Node) -> Node:
    """Add a row for each partition with live statics and no other visible row (rule W3).

    Uses a window instead of an outer join, so that engines push a predicate on the partition key through it.
    """
    candidates = static_rows(request, partitions, like=visible.output())
    every = UnionAll("rows_and_static_rows", "visible row or static row", (visible, candidates))
    has_row = AnyOver(col(names.IS_ROW), tuple(col(names.identity(c)) for c in request.schema.partition))
    columns = (*cols(every.output()), (names.HAS_ROW, has_row))
    told = Select("rows_with_has_row", every.grain, every, columns, notes=noted(_STATIC_ONLY))
    shown = either(col(names.IS_ROW), ~col(names.HAS_ROW))
    return Select("shown_rows", "row of the view", told, cols(every.output()), shown, notes=noted(_SHOWN_ALONE))


def static_rows(request: Showing, partitions: Node, *, like: tuple[str, ...]) -> Select:
    """Return the row that each partition with live statics shows if it has no other row (W3), in the columns `like`."""
    statics = request.schema.statics
    if clock := _clock(request, partitions):
        partitions = Select("partitions_now", "partition", partitions, (*cols(partitions.output()), *clock), notes=noted(_NOW))
    judged = judged_cells(request, partitions, columns=statics, scope=col(names.PARTITION_DELETED))
    live = either(*(_any_shows(c) for c in statics))
    known: dict[str, Expr] = {**dict(shown_keys(request.schema.partition)), **dict(shown_values(request, statics))}
    known |= {names.IS_ROW: FALSE, **dict(_expiry(request, statics, has_marker=False))}
    columns = tuple((name, known.get(name, Lit(None))) for name in like)
    return Select("static_rows", "partition with live statics", judged, columns, live)
