"""Rules C2, C4 and D1 as expressions: which cell wins, whether and how long it shows, which facts a deletion covers."""

from __future__ import annotations

from cdc_views.model.types import Kind, LogicalType, Scalar, carries_order_bytes
from cdc_views.plan.expr import (
    Call,
    Case,
    Col,
    Each,
    Expr,
    Field,
    Friendly,
    Greatest,
    Item,
    Keep,
    Lit,
    Named,
    Op,
    either,
    is_null,
    when,
)
from cdc_views.rules.cells import RANK_FLOOR, TTL_BITS

_SIGNED = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TIMESTAMP, Kind.DATETIME, Kind.INSTANT}
)  # fmt: skip
"""Kinds serialized as two's complement: by unsigned bytes, negatives are above positives (rule C3)."""

WRITTEN, RANK, VALUE, BYTES, NEGATIVE = "written", "rank", "value", "bytes", "negative"
SHIFT = TTL_BITS + 1
"""The number of bits of a rank below its expiry (`cells.rank`)."""
LAST_EXPIRY = (1 << 32) - 1
"""The last second at which anything can expire: Cassandra keeps it in 32 bits."""
LIFT = -(RANK_FLOOR >> SHIFT)
"""Add it to a (negative) rank shifted right by `SHIFT` to get the expiry in seconds."""


def precedence_parts(cell: Expr, kind: LogicalType | None) -> Named:
    """Return the fields whose lexicographic maximum is the latest cell: C2.1, C2.2–C2.5 in `rank`, C2.6.

    `kind` is None for cells without a value. A null value never ties with another value: their ranks differ.
    """
    newest: Named = ((WRITTEN, cell[WRITTEN]), (RANK, cell[RANK]))
    if kind is None:
        return newest
    if carries_order_bytes(kind):
        return (*newest, (BYTES, cell[BYTES]))  # C3: SQL orders the values differently
    value = cell[VALUE]
    if isinstance(kind, Scalar) and kind.kind in _SIGNED:
        # C3: as unsigned bytes, negatives rank above positives
        return (*newest, (NEGATIVE, value < 0), (VALUE, value))
    return (*newest, (VALUE, value))


def now_rank(now: Expr | int) -> Expr:
    """Return the least rank of a cell that expires after `now`: `RANK_FLOOR + (now + 1) · 2^31` (rule C4).

    A column already holds that rank. A constant is limited to the 32 bits of an expiry, so that its rank fits into 64 bits.
    """
    if isinstance(now, Col):
        return now
    seconds = now.value if isinstance(now, Lit) else now
    if isinstance(seconds, int):
        return Lit(RANK_FLOOR + ((min(max(seconds, -1), LAST_EXPIRY) + 1) << SHIFT))
    assert isinstance(now, Expr), "an instant is a number or an expression"
    return now * (1 << SHIFT) + (RANK_FLOOR + (1 << SHIFT))


def is_eternal(rank: Expr) -> Expr:
    """Return whether a cell of that rank is live at any time: neither expiring nor a tombstone (rule C1)."""
    return rank < RANK_FLOOR + 2


def has_expiry(rank: Expr) -> Expr:
    """Return whether a cell of that rank expires, unless it is a tombstone."""
    return rank >= RANK_FLOOR + 2


def is_tombstone(rank: Expr) -> Expr:
    """Return whether a cell of that rank is a tombstone."""
    return rank >= 0


def is_live(rank: Expr, now: Expr) -> Expr:
    """Return whether a cell of that rank is live at `now` (rule C4): not expired, and no tombstone."""
    return _living(rank, now_rank(now))


def _living(rank: Expr, clock: Expr) -> Expr:
    return either(is_eternal(rank), Call(Op.BETWEEN, (rank, clock, Lit(-1))))


def survives(written: Expr, deletion: Expr) -> Expr:
    """Return whether a part survives the largest deletion of its scope (D1: deletions win ties); null means no deletion."""
    return either(is_null(deletion), written > deletion)


def shows_null(kind: LogicalType) -> bool:
    """Return whether the friendly form of null is null in every dialect without a condition of its own: a scalar's is."""
    return isinstance(kind, Scalar)


def covered_if(value: Case) -> Expr | None:
    """Return when a deletion hides the value that `value` shows if its cell `survives`; None for any other CASE.

    It is null, and not true, without a cell or a deletion. An absent cell's value is null anyway.
    """
    match value:
        case Case(((survival, Friendly(Field(cell, field), kind)),), Lit(None)) if field == VALUE and shows_null(kind):
            match survival:
                case Call(Op.OR, (Call(Op.IS_NULL, (deletion,)), _)) if survival == survives(cell[WRITTEN], deletion):
                    return cell[WRITTEN] <= deletion
    return None


def shows(cell: Expr, *, deletion: Expr, now: Expr) -> Expr:
    """Return whether a *winning* cell shows (C4, D1); null if there is no cell, so use it as a condition.

    A null literal as `deletion` means that deletions were already applied, so the write time is not read.
    """
    if deletion == Lit(None):
        return is_live(cell[RANK], now)
    return _shows(cell[WRITTEN], cell[RANK], deletion, now)


def _shows(written: Expr, rank: Expr, deletion: Expr, now: Expr) -> Expr:
    return survives(written, deletion) & is_live(rank, now)


SHOWS = ("written", "rank", "deleted", "clock")
"""The parts of `shows`: a write time, a rank, the largest deletion, and the least rank that has not expired."""
SHOWS_BODY = _shows(*map(Col, SHOWS))
"""`shows` over columns of these names."""


def parts_of_shows(test: Expr) -> tuple[Expr, Expr, Expr, Expr] | None:
    """Return the parts of a condition that `shows` made, in the order of `SHOWS`; None for any other."""
    match test:
        case Call(Op.AND, (Call(Op.OR, (Call(Op.IS_NULL, (deletion,)), Call(Op.GT, (written, _)))), Call(Op.OR, (_, living)))):
            match living:
                case Call(Op.BETWEEN, (rank, clock, _)) if test == survives(written, deletion) & _living(rank, clock):
                    return written, rank, deletion, clock
    return None


def cell_expiry(cell: Expr, shows: Expr) -> Expr:
    """Return the negated rank of a cell if it shows and will expire, else null; the largest is the first to expire (rule C4)."""
    rank = cell[RANK]
    return when(shows & has_expiry(rank), rank * -1)


def elements_expiry(live: Expr) -> Expr:
    """Return the largest negated rank of the live elements that will expire; null without one."""
    rank = Item()[RANK]
    return Greatest(Each(Keep(live, has_expiry(rank)), rank * -1))
