"""The rows of events that each write a whole row (rules S1 to S6), from nothing but their newest events.

A deletion tells every column: that it is null (D1). A truncate leaves out all that is older (S6). So the newest event that tells
a column decides what it shows, and no cell is compared with another, nor with a deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.plan import names
from cdc_views.plan.expr import (
    TRUE,
    Call,
    Expr,
    Friendly,
    Lit,
    Named,
    Newest,
    Op,
    RowNumber,
    Struct,
    both,
    coalesce,
    col,
    cols,
    either,
    equal,
    not_null,
    when,
)
from cdc_views.plan.nodes import Aggregate, Node, Select, beside, noted
from cdc_views.plan.order import RANK, VALUE, WRITTEN, is_eternal, shows_null
from cdc_views.plan.reduce import display_folds, reduce_table, stored_keys
from cdc_views.plan.reduction import Reduction
from cdc_views.plan.show import Showing, shown_keys

GONE, _NEWEST = "_gone", "_newest"
"""Of an event: whether it deletes its row; 1 for the newest of its row."""
_POSITION = "_log_position orders a row's events (S2); _gone: the event deletes the row"
SINCE_TRUNCATE = "none before the last truncate counts (S6)"
_LATEST = "each column from the newest event that has it (S4); a deletion clears all (D1)"
_LAST = "the newest event of each row, which tells every column (S1)"
EXISTS = "a row exists if its newest event is no deletion (S1)"


def are_events(request: Reduction) -> bool:
    """Return whether `event_rows` reads the facts: events of rows that have single cells only."""
    schema = request.schema
    has_scopes = bool(schema.clustering or schema.statics)
    is_simple = not has_scopes and not any(column.type.is_multicell for column in schema.regulars)
    return is_simple and request.events is not None and request.split is None


@dataclass(frozen=True, slots=True)
class EventColumn:
    """A column that events tell: its name in their step, its value there, and which events tell it (None: all).

    A deletion tells every column, and has no value of one that other events may leave out.
    """

    name: str
    value: Expr
    where: Expr | None = None


def newest_of(events: Node, keys: Sequence[str], told: Sequence[EventColumn], *, position: str, folds: Named = ()) -> Node:
    """Return one row per key: what is told, by the newest event that tells it, and `GONE` by the newest of all.

    `events` has the columns `keys`, `GONE` and `position`, their order. `folds` are further aggregates of a key's events.
    """
    if tell_all(told, folds):
        return _last(events, keys, position)
    newest: list[tuple[str, Expr]] = [(GONE, Newest(col(GONE), col(position)))]
    for one in told:
        where = None if one.where is None else either(col(GONE), one.where)
        newest.append((one.name, Newest(one.value, col(position), where)))
    return Aggregate("latest_rows", "row key", events, tuple(keys), (*folds, *newest), notes=noted(_LATEST))


def tell_all(told: Sequence[EventColumn], folds: Named = ()) -> bool:
    """Whether each event tells all, so that one event has the whole row, with no `folds` of others."""
    return not folds and all(one.where is None for one in told)


def _last(events: Node, keys: Sequence[str], position: str) -> Select:
    """The newest event of each row."""
    # Spark would sort, and move, what a window orders by beside the column of the same content
    number = RowNumber(tuple(map(col, keys)), (col(position), col(GONE)))
    numbered = Select("numbered_events", "event", events, (*cols(events.output()), (_NEWEST, number)))
    return Select("latest_rows", "row key", numbered, cols(events.output()), equal(col(_NEWEST), 1), notes=noted(_LAST))


def event_rows(request: Reduction, showing: Showing) -> Select:
    """Return the visible rows, of facts that `are_events`."""
    told, folds = _told(request), display_folds(request.schema.row_key, request.row_keys())
    # Spark moves structs at twice the cost of their fields, and a window wants positions as they are
    is_ranked = tell_all(told, folds)
    cells = tuple((one.name, one.value) for one in told) if is_ranked else cols(physical_name(c.name) for c in _columns(request))
    events = _events(request, cells, is_ranked=is_ranked)
    rows = newest_of(events, request.row_keys(), told, position=names.LOG_POSITION, folds=tuple(folds))
    values = (entry for c in showing.shown(showing.schema.regulars) for entry in _value(request, showing, c))
    never = ((names.SOONEST, Lit(None)),) * showing.tells_expiry
    columns = (*shown_keys(showing.schema.row_key), *values, (names.IS_ROW, TRUE), *never)
    return Select("visible_rows", "visible row", rows, columns, ~col(GONE), notes=noted(EXISTS))


def _told(request: Reduction) -> list[EventColumn]:
    """The fields of cells that show the columns."""
    told = []
    for column in _columns(request):
        test, cell = _tells(request, column), col(physical_name(column.name))
        told += [EventColumn(_said(column, name), cell[name], test) for name in _fields(request, column)]
    return told


def _events(request: Reduction, cells: Named, *, is_ranked: bool) -> Select:
    """One row an event, with the `cells` of its row; `is_ranked` by a window."""
    live, deleted, keys = col(names.LIVE), col(names.DELETED), stored_keys(request.row_keys(), request.schema.row_key)
    stored = cols((names.LIVE, names.DELETED, *(physical_name(c.name) for c in _columns(request))))
    facts: Node = request.facts("row_facts", kinds=request.row_kinds, columns=(*keys, *stored))
    written, since = coalesce(live[WRITTEN], deleted[WRITTEN]), None
    if request.events is None or request.events.have_truncates:
        facts = beside("facts_and_table", facts, reduce_table(request), ())
        since = coalesce(written > col(names.TABLE_DELETED), TRUE)
    own = ((names.LOG_POSITION, written if is_ranked else Call(Op.POSITION, (written,))), (GONE, not_null(deleted[WRITTEN])))
    columns, counts = (*cols(name for name, _ in keys), *cells, *own), both(request.in_time(written), since)
    notes = noted(_POSITION, SINCE_TRUNCATE if since is not None else "")
    return Select("events", "event", facts, columns, counts, notes=notes)


def _columns(request: Reduction) -> list[Column]:
    return request.reducible(request.schema.regulars)


def _tells(request: Reduction, column: Column) -> Expr | None:
    """Whether an event that writes the row tells the column; None if every event does."""
    partial, dropped_at = None if request.events is None else request.events.partial, request.drop_time(column)
    # the rank is the smallest field of a cell: it has few values
    is_told = not_null(col(physical_name(column.name))[RANK]) if partial is None or column.name in partial else None
    return both(is_told, col(names.LOG_POSITION) > dropped_at if dropped_at is not None else None)


def _fields(request: Reduction, column: Column) -> tuple[str, ...]:
    """The fields of a cell that show it; without a value, its rank tells whether it has one."""
    payload = request.payload(column.type)
    return payload if VALUE in payload else (RANK, *payload)


def _said(column: Column, field: str) -> str:
    name = physical_name(column.name)
    return name if field == VALUE else f"_{field}_of_{name}"


def _value(request: Reduction, showing: Showing, column: Column) -> Named:
    """The forms of a column's value; `column` has the type that the view shows."""
    fields = _fields(request, request.schema.column(column.name))
    cell = Struct(tuple((name, col(_said(column, name))) for name in fields))
    values = showing.representation.of_cell(column, cell)
    if shows_null(column.type) and all(value == Friendly(cell[VALUE], column.type) for _, value in values):
        return values
    has_value = not_null(cell[VALUE]) if VALUE in fields else is_eternal(cell[RANK])
    return tuple((name, when(has_value, value)) for name, value in values)
