"""When expiry next changes a row that shows: the least instant at which something of it expires (rule C4).

A plan says it as the largest negated rank, since `rank` packs the expiry first (`cells.rank`); no division is needed to
compare. Engines turn that into epoch seconds by a shift.
"""

from __future__ import annotations

from cdc_views.plan.expr import Call, Each, Expr, Field, Greatest, Item, Keep, Lit, Op, both, when
from cdc_views.plan.order import RANK, has_expiry
from cdc_views.rules.cells import RANK_FLOOR, TTL_BITS

SHIFT = TTL_BITS + 1
"""Bits of a rank below the expiry."""
LIFT = -(RANK_FLOOR >> SHIFT)
"""What a rank, negative as it is, shifted by `SHIFT` lacks to the expiry."""


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
    """Return the largest of negated ranks, null where all are."""
    if len(expiries) < 2:
        return expiries[0] if expiries else Lit(None)
    return Call(Op.GREATEST, tuple(expiries))


def _negated(rank: Expr) -> Expr:
    return Call(Op.MUL, (rank, Lit(-1)))
