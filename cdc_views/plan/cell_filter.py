"""Filters of the parts of a raw fact: its row marker, its deletion, its cells, and each collection's own deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from cdc_views.formats.base import WriteOrder
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.plan import names
from cdc_views.plan.expr import (
    FALSE,
    Each,
    Expr,
    Greatest,
    IsEmpty,
    Item,
    Keep,
    Named,
    Struct,
    coalesce,
    col,
    either,
    is_null,
    largest,
    not_null,
    when,
)
from cdc_views.plan.order import RANK, WRITTEN, has_expiry, now_rank

DELETION, CELLS, AT = "deletion", "cells", "at"
Instant = int | Expr
"""Seconds since the epoch."""
_SECOND = 1_000_000
"""The write times (µs) in a second."""
Test = Callable[[Expr], Expr]
"""A condition on a part; false or null for an absent one (C5)."""


@dataclass(frozen=True, slots=True)
class CellFilter:
    """Two tests: of cells and row markers (structs with `written` and `rank`), and of deletions (`written` and `at`)."""

    cell: Test
    deletion: Test

    def inverted(self) -> CellFilter:
        """Return the filter that passes the present parts that fail this one."""
        return CellFilter(partial(_fails, self.cell), partial(_fails, self.deletion))


def _fails(test: Test, value: Expr) -> Expr:
    return _is_there(value) & ~coalesce(test(value), FALSE)


def _is_there(value: Expr) -> Expr:
    return not_null(value[WRITTEN])


EVERYTHING = CellFilter(_is_there, _is_there)


def written_after(through: Expr) -> CellFilter:
    """Return the filter of parts written after `through`; null passes every part."""

    def test(value: Expr) -> Expr:
        return _is_there(value) & either(is_null(through), value[WRITTEN] > through)

    return CellFilter(test, test)


def written_until(through: Expr) -> CellFilter:
    """Return the filter of parts written at or before `through`; null passes none."""

    def test(value: Expr) -> Expr:
        return value[WRITTEN] <= through

    return CellFilter(test, test)


def uncovered(cover: Expr, own: Expr) -> CellFilter:
    """Return the filter of parts that survive `cover` (D1), and of cells that also survive the column's `own` deletion (D3)."""
    return CellFilter(written_after(largest(cover, own)).cell, written_after(cover).deletion)


def ended(horizon: Instant, order: WriteOrder) -> CellFilter:
    """Return the filter of tombstones, deletions and expired cells that ended at or before `horizon` (seconds, rule M2).

    A server time of 0 never passes: the source had no clock. If write times are times (`order`), a part written after the
    horizon does not pass either: its client's clock was ahead, and all facts written until then would become late.
    """

    def dated(at: Expr) -> Expr:
        return (at > 0) & (at <= horizon)

    def in_past(value: Expr, has_ended: Expr) -> Expr:
        if order is not WriteOrder.MICROS:
            return has_ended
        return has_ended & (value[WRITTEN] <= horizon * _SECOND)

    return CellFilter(
        lambda cell: in_past(cell, either(dated(cell[RANK]), expired(cell, by=horizon))),
        lambda deletion: in_past(deletion, dated(deletion[AT])),
    )


def expired_by(horizon: Instant) -> CellFilter:
    """Return the filter of cells and markers that expired at or before `horizon` (seconds)."""
    return CellFilter(lambda cell: expired(cell, by=horizon), lambda _: FALSE)


def expired(cell: Expr, *, by: Instant) -> Expr:
    """Return whether a cell has an expiry at or before `by` (seconds); `cells.rank` explains how ranks are packed."""
    rank = cell[RANK]
    return has_expiry(rank) & (rank < now_rank(by))


def filtered(node_columns: Iterable[str], columns: Iterable[Column], passes: CellFilter) -> Named:
    """Return the marker, the deletion and `columns` where `node_columns` has them; parts that fail are null."""
    have, kept = set(node_columns), list[tuple[str, Expr]]()
    if names.LIVE in have:
        kept.append((names.LIVE, when(passes.cell(col(names.LIVE)), col(names.LIVE))))
    kept += [(n, when(passes.deletion(col(n)), col(n))) for n in (names.DELETED, names.OWN_DELETED) if n in have]
    present = ((physical_name(column.name), column) for column in columns)
    return (*kept, *((name, _column(column, passes)) for name, column in present if name in have))


def _column(column: Column, passes: CellFilter) -> Expr:
    stored = col(physical_name(column.name))
    if not column.type.is_multicell:
        return when(passes.cell(stored), stored)
    deletion = stored[DELETION]
    kept = when(passes.deletion(deletion), deletion)
    if cells_of := names.cells(column):
        fields = tuple((f, when(passes.cell(stored[CELLS][f]), stored[CELLS][f])) for _, f, _ in cells_of)
        present = either(*(not_null(cell) for _, cell in fields))
        cells = when(present, Struct(fields))
    else:
        left = Keep(stored[CELLS], passes.cell(Item()))
        present = ~IsEmpty(left)
        cells = when(present, left)
    return when(either(not_null(kept), present), Struct(((DELETION, kept), (CELLS, cells))))


def greatest(node_columns: Iterable[str], columns: Iterable[Column], passes: CellFilter, *, of: str = WRITTEN) -> Expr:
    """Return the largest field `of` (`written`, or `rank`, which deletions lack) of the parts that pass; null if none does."""
    have, found = set(node_columns), list[Expr]()
    if names.LIVE in have:
        found.append(when(passes.cell(col(names.LIVE)), col(names.LIVE)[of]))
    if names.DELETED in have and of == WRITTEN:
        found.append(when(passes.deletion(col(names.DELETED)), col(names.DELETED)[of]))
    for column in columns:
        if physical_name(column.name) in have:
            found += _greatest_of(column, passes, of)
    return largest(*found)


def _greatest_of(column: Column, passes: CellFilter, of: str) -> Iterator[Expr]:
    stored = col(physical_name(column.name))
    if not column.type.is_multicell:
        yield when(passes.cell(stored), stored[of])
        return
    if of == WRITTEN:
        deletion = stored[DELETION]
        yield when(passes.deletion(deletion), deletion[of])
    for _, field, _ in names.cells(column):
        cell = stored[CELLS][field]
        yield when(passes.cell(cell), cell[of])
    if not names.cells(column):
        yield Greatest(Each(Keep(stored[CELLS], passes.cell(Item())), Item()[of]))
