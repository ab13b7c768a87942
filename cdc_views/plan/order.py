"""Rules C2, C4 and D1 as expressions: which cell wins, whether and how long it shows, which facts a deletion covers."""

from __future__ import annotations

from cdc_views.model.types import Kind, LogicalType, Scalar, carries_order_bytes
from cdc_views.plan.expr import Call, Col, Each, Expr, Field, Greatest, Item, Keep, Lit, Op, both, either, is_null, when
from cdc_views.rules.cells import RANK_FLOOR, TTL_BITS

_SIGNED = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TIMESTAMP, Kind.DATETIME, Kind.INSTANT}
)  # fmt: skip
"""Kinds serialized as two's complement, whose unsigned byte order puts negatives above positives (rule C3)."""

WRITTEN, RANK, VALUE, BYTES = "written", "rank", "value", "bytes"
SHIFT = TTL_BITS + 1
"""The bits of a rank below its expiry (`cells.rank`)."""
LIFT = -(RANK_FLOOR >> SHIFT)
"""What to add to a rank, which is negative, shifted by `SHIFT`, to get the expiry in seconds."""


def precedence_parts(cell: Expr, kind: LogicalType | None) -> tuple[tuple[str, Expr], ...]:
    """Return the fields whose lexicographic maximum is the latest cell: C2.1, C2.2–C2.5 in `rank`, C2.6.

    `kind` is None for cells without a value. A null tie never meets a non-null one: `rank` tells them apart.
    """
    parts: list[tuple[str, Expr]] = [(WRITTEN, Field(cell, WRITTEN)), (RANK, Field(cell, RANK))]
    if kind is None:
        return tuple(parts)
    if carries_order_bytes(kind):
        return (*parts, (BYTES, Field(cell, BYTES)))  # C3: SQL orders the values differently
    if isinstance(kind, Scalar) and kind.kind in _SIGNED:
        # C3: as unsigned bytes, negatives rank above positives
        parts.append(("negative", Call(Op.LT, (Field(cell, VALUE), Lit(0)))))
    return (*parts, (VALUE, Field(cell, VALUE)))


def now_rank(now: Expr) -> Expr:
    """Return the least rank of a cell that still expires after `now`: `RANK_FLOOR + (now + 1) · 2^31` (rule C4).

    A column holds that rank already. Expiries have 32 bits, so a constant beyond them means the same as their end; its own
    rank would not fit into 64 bits, which is all that some engines' literals have.
    """
    if isinstance(now, Col):
        return now
    if isinstance(now, Lit) and isinstance(now.value, int):
        expiry = min(max(now.value, -1), (1 << 32) - 1)
        return Lit(RANK_FLOOR + ((expiry + 1) << (TTL_BITS + 1)))
    ahead = Call(Op.ADD, (now, Lit(1)))
    return Call(Op.ADD, (Call(Op.MUL, (ahead, Lit(1 << (TTL_BITS + 1)))), Lit(RANK_FLOOR)))


def is_eternal(rank: Expr) -> Expr:
    """Return whether a cell of that rank is live at any time (rule C1: neither expiring nor a tombstone)."""
    return Call(Op.LT, (rank, Lit(RANK_FLOOR + 2)))


def has_expiry(rank: Expr) -> Expr:
    """Return whether a cell of that rank, if it is no tombstone, expires."""
    return Call(Op.GE, (rank, Lit(RANK_FLOOR + 2)))


def is_tombstone(rank: Expr) -> Expr:
    """Return whether a cell of that rank is a tombstone."""
    return Call(Op.GE, (rank, Lit(0)))


def is_live(rank: Expr, now: Expr) -> Expr:
    """Return whether a cell of that rank is live at `now` (rule C4): never expires, or not yet; never a tombstone."""
    expiring = Call(Op.AND, (Call(Op.LT, (rank, Lit(0))), Call(Op.GE, (rank, now_rank(now)))))
    return either(is_eternal(rank), expiring)


def survives(written: Expr, deletion: Expr) -> Expr:
    """Return whether a part outlives the largest deletion of its scope (rule D1: deletions win ties); null is no deletion."""
    return either(is_null(deletion), Call(Op.GT, (written, deletion)))


def shows(cell: Expr, *, deletion: Expr, now: Expr) -> Expr:
    """Return whether a *winning* cell shows (C4, D1); null where there is no cell, so use it as a condition.

    A `deletion` of null means that deletions were already applied, so the write time is not read.
    """
    if deletion == Lit(None):
        return is_live(Field(cell, RANK), now)
    return Call(Op.AND, (survives(Field(cell, WRITTEN), deletion), is_live(Field(cell, RANK), now)))


def cell_expiry(cell: Expr, shows: Expr) -> Expr:
    """Return the negated rank of a cell where it shows and will expire, else null."""
    condition = both(shows, has_expiry(Field(cell, RANK)))
    assert condition is not None
    return when(condition, _negated(Field(cell, RANK)))


def elements_expiry(live: Expr) -> Expr:
    """Return the largest negated rank among an array's live elements that will expire; null without one."""
    expiring = Keep(live, has_expiry(Field(Item(), RANK)))
    return Greatest(Each(expiring, _negated(Field(Item(), RANK))))


def soonest(expiries: list[Expr]) -> Expr:
    """Return when the first of some cells expires (rule C4), as the largest negated rank; null where none does.

    Engines turn that into epoch seconds by a shift. Ranks pack the expiry first, so comparing them needs no division.
    """
    if len(expiries) < 2:
        return expiries[0] if expiries else Lit(None)
    return Call(Op.GREATEST, tuple(expiries))


def _negated(rank: Expr) -> Expr:
    return Call(Op.MUL, (rank, Lit(-1)))
