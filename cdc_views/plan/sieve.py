"""What a fact says in the raw layout, part by part: keep the parts that pass a test, or find the newest that do.

The parts of a fact are its row marker, its deletion, its cells, and of a multi-cell column its deletion and elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from cdc_views.formats.base import WriteOrder
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column
from cdc_views.model.types import Udt
from cdc_views.plan import names
from cdc_views.plan.expr import (
    Call,
    Each,
    Expr,
    Field,
    Greatest,
    IsEmpty,
    Item,
    Keep,
    Lit,
    Named,
    Op,
    Struct,
    col,
    either,
    is_null,
    not_null,
    when,
)
from cdc_views.plan.order import RANK, WRITTEN, has_expiry, now_rank

DELETION, CELLS, AT = "deletion", "cells", "at"
Instant = int | Expr
"""Seconds since the epoch."""
_SECOND = 1_000_000


class Sieve(Protocol):
    """A test of parts; false, or null, for a part that is not there."""

    def marked(self, part: Expr) -> Expr:
        """Whether a cell or a row marker passes: a struct with `written` and `rank`."""

    def deletion(self, part: Expr) -> Expr:
        """Whether a deletion passes: a struct with `written` and `at`."""


@dataclass(frozen=True, slots=True)
class Every:
    """Every part."""

    def marked(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return not_null(Field(part, WRITTEN))

    deletion = marked


@dataclass(frozen=True, slots=True)
class After:
    """Parts written after `through`; all where that is null."""

    through: Expr

    def marked(self, part: Expr) -> Expr:
        """See `Sieve`."""
        written = Field(part, WRITTEN)
        return Call(Op.AND, (not_null(written), either(is_null(self.through), Call(Op.GT, (written, self.through)))))

    deletion = marked


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Parts of a column that neither `cover` hides nor, its cells, the column's `own` deletion: write times, or null."""

    cover: Expr
    own: Expr

    def marked(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return After(Call(Op.GREATEST, (self.cover, self.own))).marked(part)

    def deletion(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return After(self.cover).deletion(part)


@dataclass(frozen=True, slots=True)
class Until:
    """Parts written at or before `through`; none where that is null."""

    through: Expr

    def marked(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return Call(Op.LE, (Field(part, WRITTEN), self.through))

    deletion = marked


@dataclass(frozen=True, slots=True)
class Ended:
    """Tombstones, deletions and expired parts whose server's time is at or before `horizon`, in seconds (rule M2).

    The horizon is a constant, or an expression that is one for a whole run. A server's time of 0 means that the source
    had none (relational sources without clocks): it never passes. Nor does a part written after the horizon, by a clock
    that was ahead: all that is written until then would be late. `order` says whether write times tell that.
    """

    horizon: Instant
    order: WriteOrder

    def marked(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return self._written(part, either(self._dated(Field(part, RANK)), expired(part, by=self.horizon)))

    def deletion(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return self._written(part, self._dated(Field(part, AT)))

    def _written(self, part: Expr, ended: Expr) -> Expr:
        if self.order is not WriteOrder.MICROS:
            return ended
        return Call(Op.AND, (ended, Call(Op.LE, (Field(part, WRITTEN), _micros(self.horizon)))))

    def _dated(self, at: Expr) -> Expr:
        return Call(Op.AND, (Call(Op.GT, (at, Lit(0))), Call(Op.LE, (at, instant(self.horizon)))))


@dataclass(frozen=True, slots=True)
class Others:
    """The parts that do not pass `sieve`."""

    sieve: Sieve

    def marked(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return self._unless(part, self.sieve.marked(part))

    def deletion(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return self._unless(part, self.sieve.deletion(part))

    def _unless(self, part: Expr, passes: Expr) -> Expr:
        passed = Call(Op.COALESCE, (passes, Lit(False)))
        return Call(Op.AND, (not_null(Field(part, WRITTEN)), Call(Op.NOT, (passed,))))


@dataclass(frozen=True, slots=True)
class ExpiredBy:
    """Parts that expired at or before `horizon`, in seconds; nothing else."""

    horizon: Instant

    def marked(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return expired(part, by=self.horizon)

    def deletion(self, part: Expr) -> Expr:
        """See `Sieve`."""
        return Lit(False)


def instant(value: Instant) -> Expr:
    """Return an instant as an expression."""
    return value if isinstance(value, Expr) else Lit(value)


def _micros(value: Instant) -> Expr:
    """Seconds as write times have them."""
    return Call(Op.MUL, (value, Lit(_SECOND))) if isinstance(value, Expr) else Lit(value * _SECOND)


def expired(part: Expr, *, by: Instant) -> Expr:
    """Whether a part carries an expiry at or before `by` (seconds); `cells.rank` says how ranks are packed."""
    rank = Field(part, RANK)
    return Call(Op.AND, (has_expiry(rank), Call(Op.LT, (rank, now_rank(instant(by))))))


def sifted(node_columns: Iterable[str], columns: Iterable[Column], sieve: Sieve) -> Named:
    """Return the marker, the deletion and `columns`, as far as `node_columns` has them, with the parts that pass alone.

    What no part is left of is null: absent.
    """
    have, kept = set(node_columns), list[tuple[str, Expr]]()
    if names.LIVE in have:
        kept.append((names.LIVE, when(sieve.marked(col(names.LIVE)), col(names.LIVE))))
    kept += [(n, when(sieve.deletion(col(n)), col(n))) for n in (names.DELETED, names.OWN_DELETED) if n in have]
    present = ((physical_name(column.name), column) for column in columns)
    return (*kept, *((name, _column(column, sieve)) for name, column in present if name in have))


def _column(column: Column, sieve: Sieve) -> Expr:
    stored = col(physical_name(column.name))
    if not column.type.is_multicell:
        return when(sieve.marked(stored), stored)
    deletion = Field(stored, DELETION)
    kept = when(sieve.deletion(deletion), deletion)
    if isinstance(column.type, Udt):
        fields = tuple((name, when(sieve.marked(cell), cell)) for name, cell in _fields(column, column.type))
        present = either(*(not_null(cell) for _, cell in fields))
        cells = when(present, Struct(fields))
    else:
        left = Keep(Field(stored, CELLS), sieve.marked(Item()))
        present = Call(Op.NOT, (IsEmpty(left),))
        cells = when(present, left)
    return when(either(not_null(kept), present), Struct(((DELETION, kept), (CELLS, cells))))


def _fields(column: Column, kind: Udt) -> Iterator[tuple[str, Expr]]:
    cells = Field(col(physical_name(column.name)), CELLS)
    for name, _ in kind.fields:
        yield physical_name(name), Field(cells, physical_name(name))


def greatest(node_columns: Iterable[str], columns: Iterable[Column], sieve: Sieve, *, of: str = WRITTEN) -> Expr:
    """Return the largest `of` (a field: `written`, or `rank` of what is no deletion) of the parts that pass; null for none."""
    have, found = set(node_columns), list[Expr]()
    if names.LIVE in have:
        found.append(when(sieve.marked(col(names.LIVE)), Field(col(names.LIVE), of)))
    if names.DELETED in have and of == WRITTEN:
        found.append(when(sieve.deletion(col(names.DELETED)), Field(col(names.DELETED), of)))
    for column in columns:
        if physical_name(column.name) in have:
            found += _greatest_of(column, sieve, of)
    if not found:
        return Lit(None)
    return found[0] if len(found) == 1 else Call(Op.GREATEST, tuple(found))


def _greatest_of(column: Column, sieve: Sieve, of: str) -> Iterator[Expr]:
    stored = col(physical_name(column.name))
    if not column.type.is_multicell:
        yield when(sieve.marked(stored), Field(stored, of))
        return
    if of == WRITTEN:
        deletion = Field(stored, DELETION)
        yield when(sieve.deletion(deletion), Field(deletion, of))
    if isinstance(column.type, Udt):
        for _, cell in _fields(column, column.type):
            yield when(sieve.marked(cell), Field(cell, of))
    else:
        yield Greatest(Each(Keep(Field(stored, CELLS), sieve.marked(Item())), Field(Item(), of)))


__all__ = [
    "After",
    "Ended",
    "Every",
    "ExpiredBy",
    "Instant",
    "Others",
    "Sieve",
    "Uncovered",
    "Until",
    "expired",
    "greatest",
    "sifted",
]
