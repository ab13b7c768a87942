"""The latest cells of whole rows (rules S1 to S4), for engines that run a plan at once: as fast as the latest *event*.

Almost every event writes its whole row, so its cells win together. One window finds each key's newest event that tells all
columns, or deletes; a group-by reduces the few events that leave a column out (S4), and a join lays their newer cells over it.
A maximum a column, as `rewrites.aggregate` has, compares every cell of every event.

An older deletion may go: the event that is kept has every column, and is newer (D1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cdc_views.plan import names
from cdc_views.plan.expr import (
    Agg,
    Case,
    Col,
    Expr,
    Field,
    Fold,
    Lit,
    Named,
    RowNumber,
    Struct,
    both,
    coalesce,
    col,
    cols,
    either,
    equal,
    is_null,
    largest,
    maxima,
    not_null,
    when,
)
from cdc_views.plan.nodes import Aggregate, CellColumn, Join, JoinKind, LatestCells, Node, Scan, Select, in_order, noted
from cdc_views.plan.order import RANK, WRITTEN
from cdc_views.rules.cells import RANK_FLOOR

Reads = frozenset[tuple[str, str]]
"""The fields of cells that a plan reads, as (cell, field)."""

_NEWEST, _GONE = "_newest", "_gone"
"""Of an event: 1 for the newest of its key; whether it is a deletion, which is as good as its time, and shorter to move."""
_MARKER_RANK = Lit(RANK_FLOOR + 1)
"""The rank of every marker of an event: it never expires (S1)."""
_WHOLE = "the newest event that tells every column, or deletes (S1)"
_PARTIAL = "the latest cell of each column in events that leave one out (S4)"
_LAID_OVER = "newer cells of such events lie over it (C2)"


def reads_of(root: Node) -> Reads:
    """Return the fields of columns that the plan reads."""
    parts = (part for node in in_order(root) for expression in node.expressions() for part in _parts(expression))
    return frozenset((part.base.name, part.name) for part in parts if isinstance(part, Field) and isinstance(part.base, Col))


def is_by_event(node: LatestCells) -> bool:
    """Return whether `by_event` can reduce the node: nothing but cells, their marker and deletions, read from one scan."""
    cells = [cell.name for cell in node.cells]
    is_simple = cells[:1] == [names.LIVE] and len(cells) > 1 and node.folds == maxima(names.DELETED)
    return node.is_of_events and is_simple and isinstance(node.source, Scan)


def by_event(node: LatestCells, *, source: Node, reads: Reads) -> Node:
    """Reduce by a window over whole events, and a group-by of the others, if there can be any."""
    newest, written, gone = _newest_events(node, source, reads), col(names.EVENT), col(_GONE)
    if not _tested(node):
        # a row whose newest event deletes it does not exist, whatever else covers it
        kept = ((cell.name, _whole(cell, reads)) for cell in node.cells[1:])
        columns = (*cols(node.keys), (names.LIVE, _marker(written)), (names.DELETED, Lit(None)), *kept)
        return Select(node.name, node.grain, newest, columns, ~gone)
    ours, theirs, gone = col(names.EVENT, "l"), col(names.EVENT, "r"), col(_GONE, "l")
    keys = tuple((key, coalesce(col(key, "l"), col(key, "r"))) for key in node.keys)
    live = _marker(largest(theirs, when(~gone, ours)))
    cells = ((cell.name, _later(cell, reads)) for cell in node.cells[1:])
    columns = (*keys, (names.LIVE, live), (names.DELETED, when(gone, ours)), *cells)
    partial = _partial_events(node, source, reads)
    # keys of facts are never null, and a full join on equality needs no sort after the window
    return Join(node.name, node.grain, newest, partial, JoinKind.FULL, node.keys, columns, notes=noted(_LAID_OVER))


def _marker(written: Expr) -> Expr:
    return Struct(((WRITTEN, written), (RANK, _MARKER_RANK)))


def _whole(cell: CellColumn, reads: Reads, *, side: str = "") -> Expr:
    """The cell of a whole event."""
    fields = ((name, col(_field_of(cell, name), side)) for name in _fields(cell, reads))
    return Struct(((WRITTEN, col(names.EVENT, side)), *fields))


def _field_of(cell: CellColumn, field: str) -> str:
    """The column of one field of a cell: Spark moves structs at twice the cost."""
    return f"_{field}_of_{cell.name}"


def _later(cell: CellColumn, reads: Reads) -> Expr:
    """The cell of a later partial event, else of the whole one, which may be a deletion."""
    written, theirs = col(names.EVENT, "l"), col(cell.name, "r")
    partial = Struct(((WRITTEN, theirs[WRITTEN]), *((name, theirs[name]) for name in _fields(cell, reads))))
    is_later = either(theirs[WRITTEN] > written, is_null(written))
    return Case(((is_later, partial),), when(~col(_GONE, "l"), _whole(cell, reads, side="l")))


def _newest_events(node: LatestCells, source: Node, reads: Reads) -> Node:
    """The newest whole event or deletion of each key; of equal write times the deletion (D1)."""
    marker, *cells = node.cells
    deleted = col(names.DELETED)
    written, gone = coalesce(marker.cell[WRITTEN], deleted), not_null(deleted)
    values = tuple((_field_of(cell, name), cell.cell[name]) for cell in cells for name in _fields(cell, reads))
    kept: Named = (*cols(node.keys), (names.EVENT, written), (_GONE, gone), *values)
    events, columns = Select("whole_events", "event", source, kept, either(gone, _has_all(node))), cols(name for name, _ in kept)
    # Spark would sort, and move, what a window orders by beside the column of the same content
    number = RowNumber(tuple(map(col, node.keys)), (col(names.EVENT), col(_GONE)))
    numbered = Select("numbered_events", "event", events, (*columns, (_NEWEST, number)))
    return Select("newest_events", node.grain, numbered, columns, equal(col(_NEWEST), 1), notes=noted(_WHOLE))


def _partial_events(node: LatestCells, source: Node, reads: Reads) -> Node:
    marker, *cells = node.cells
    written = marker.cell[WRITTEN]
    folds: list[tuple[str, Expr]] = [(names.EVENT, Agg(Fold.MAX, written))]
    for cell in cells:
        # S1: the marker's write time is the cell's, and is read once
        parts = ((WRITTEN, written), *((name, cell.cell[name]) for name in _fields(cell, reads)))
        folds.append((cell.name, Agg(Fold.MAX, Struct(parts), _is_present(cell))))
    # a scan of its own: an engine would keep all facts for two readers of one
    facts = replace(source, name="partial_event_facts")
    return Aggregate(
        "partial_events", node.grain, facts, node.keys, tuple(folds), _wrote(node) & ~_has_all(node), notes=noted(_PARTIAL)
    )


def _fields(cell: CellColumn, reads: Reads) -> tuple[str, ...]:
    """The fields of a cell that the plan reads, but for its write time."""
    return tuple(name for name in (RANK, *cell.payload) if (cell.name, name) in reads)


def _wrote(node: LatestCells) -> Expr:
    return not_null(node.cells[0].cell[WRITTEN])


def _tested(node: LatestCells) -> list[CellColumn]:
    """The cells that an event may leave out."""
    return [cell for cell in node.cells[1:] if not cell.is_in_each]


def _has_all(node: LatestCells) -> Expr:
    """Whether an event tells every column."""
    return both(_wrote(node), *map(_is_present, _tested(node))) or _wrote(node)


def _is_present(cell: CellColumn) -> Expr:
    """Whether an event has the cell. Tests the rank, the smallest field: it has few values."""
    return not_null(cell.cell[RANK])


def _parts(expression: Expr) -> Iterator[Expr]:
    yield expression
    for child in expression.children():
        yield from _parts(child)
