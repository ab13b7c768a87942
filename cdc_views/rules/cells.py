"""Cassandra's reconciliation of cells, livenesses and deletions, in pure Python; docs/reference/semantics.md numbers the rules.

Every engine and strategy must agree with these functions. Clients choose write times (µs); servers choose the times of deletions
and expiries (seconds since the epoch); a time to live is in seconds. Relational sources use the same functions: their write time
is an order key of log positions (rule S2).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

MAX_TTL = 20 * 365 * 24 * 3600  # the longest time to live, in seconds. Source: Cassandra 5.0, `Attributes.MAX_TTL`
TTL_BITS = 30  # enough for any time to live
_TTL_TOP = (1 << TTL_BITS) - 1
RANK_FLOOR = -(1 << 63)  # the least rank: a plain live cell of 0 bytes


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell (rule C1): live, expiring (`ttl` and `expires_at`) or a tombstone (`deleted_at`). `value` is native (see
    `cdc_views.model.types`), `order_bytes` its serialized form. Only a tombstone has value None; its `order_bytes` are empty.
    """

    written: int
    value: Any = None
    order_bytes: bytes = b""
    ttl: int | None = None
    expires_at: int | None = None
    deleted_at: int | None = None

    def __post_init__(self) -> None:
        if self.deleted_at is not None and (self.value is not None or self.expires_at is not None):
            raise ValueError("a tombstone has neither value nor expiry")
        if (self.ttl is None) != (self.expires_at is None):
            raise ValueError("ttl and expires_at come together")
        if self.deleted_at is None and self.value is None:
            raise ValueError("a cell that is no tombstone has a value")

    @property
    def is_tombstone(self) -> bool:
        """Whether the cell only deletes."""
        return self.deleted_at is not None

    def is_live(self, now: int) -> bool:
        """Whether the cell shows at `now` (rule C4): expired exactly when `now >= expires_at`."""
        return not self.is_tombstone and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Liveness:
    """The marker that an INSERT leaves on a row (rule W1)."""

    written: int
    ttl: int | None = None
    expires_at: int | None = None

    def is_live(self, now: int) -> bool:
        """Whether the marker keeps its row alive at `now`."""
        return self.expires_at is None or now < self.expires_at


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion of everything in its scope that was written at or before `written` (rule D1)."""

    written: int
    deleted_at: int

    def covers(self, written: int) -> bool:
        """Whether it removes a fact of that write time; deletions win ties."""
        return written <= self.written


def precedence(cell: Cell) -> tuple[int, bool, bool, int, int, bytes]:
    """Return the key whose maximum is the latest cell (rules C2.1 to C2.6). Cells with equal keys are interchangeable.

    The write time alone picked another cell on 34 of 40 rows of a history with many ties.
    Source: Cassandra 5.0, db/rows/Cells.java, resolveRegular.
    """
    expiry = cell.deleted_at if cell.deleted_at is not None else cell.expires_at
    return (
        cell.written,  # C2.1
        expiry is not None,  # C2.2: even before it expires
        cell.is_tombstone,  # C2.3
        expiry or 0,  # C2.4
        -(cell.ttl or 0),  # C2.5: of two cells that expire together, the one with the smaller ttl was written later
        cell.order_bytes,  # C2.6
    )


RULES = ("C2.1", "C2.2", "C2.3", "C2.4", "C2.5", "C2.6")  # the rules of the components of `precedence`, in order


def deciding_rule(winner: Cell, loser: Cell) -> str:
    """Return the rule by which `winner` beats `loser`; `"copy"` if they are the same fact."""
    for rule, ours, theirs in zip(RULES, precedence(winner), precedence(loser), strict=True):
        if ours != theirs:
            return rule
    return "copy"


def rank(cell: Cell | Liveness) -> int:
    """Pack rules C2.2 to C2.5 into one signed 64-bit integer: among equal write times, the larger rank wins.

    A tombstone's rank is its `deleted_at` (only these are >= 0). An expiring cell's rank is
    `RANK_FLOOR + expires_at * 2^31 + (2^30 - 1 - ttl) * 2 + has_bytes`, a live cell's is `RANK_FLOOR + has_bytes`.
    `has_bytes` is 0 only for a value of 0 bytes, which also loses rule C2.6 to any other value.
    """
    if isinstance(cell, Cell) and cell.deleted_at is not None:
        return cell.deleted_at
    has_bytes = 1 if isinstance(cell, Liveness) or cell.order_bytes else 0
    if cell.expires_at is None or cell.ttl is None:
        return RANK_FLOOR + has_bytes
    return RANK_FLOOR + (cell.expires_at << (TTL_BITS + 1)) + ((_TTL_TOP - cell.ttl) << 1) + has_bytes


def unrank(value: int) -> tuple[int | None, int | None, int | None]:
    """Return (ttl, expires_at, deleted_at), the inverse of `rank`."""
    if value >= 0:
        return None, None, value
    packed = value - RANK_FLOOR
    if packed < 2:
        return None, None, None
    return _TTL_TOP - ((packed >> 1) & _TTL_TOP), packed >> (TTL_BITS + 1), None


def reconcile(left: Cell, right: Cell) -> Cell:
    """Return the later of two cells of the same place (rule C2)."""
    return left if precedence(left) >= precedence(right) else right


def reconcile_liveness(left: Liveness | None, right: Liveness | None) -> Liveness | None:
    """Return the later of two row markers (rule W1); None means no marker."""
    if left is None or right is None:
        return left or right
    return max(left, right, key=_liveness_precedence)


def _liveness_precedence(liveness: Liveness) -> tuple[int, bool, int, int]:
    # ttl last: Cassandra does not compare it, and markers that differ only in ttl live equally long
    return liveness.written, liveness.expires_at is not None, liveness.expires_at or 0, -(liveness.ttl or 0)


def latest_deletion(deletions: Iterable[Deletion | None]) -> Deletion | None:
    """Return the deletion that removes most (rule D2); None if there is none."""
    present = [d for d in deletions if d is not None]
    return max(present, key=lambda d: (d.written, d.deleted_at), default=None)


def merge_cells(into: dict[Hashable, Cell], cells: Iterable[tuple[Hashable, Cell]]) -> None:
    """Reconcile `cells` into `into`, place by place."""
    for place, cell in cells:
        known = into.get(place)
        into[place] = cell if known is None else reconcile(known, cell)


def visible(cell: Cell | None, *, deletion: Deletion | None, now: int) -> bool:
    """Whether `cell`, which must be the winner of its place, shows at `now` (rule C4)."""
    if cell is None or (deletion is not None and deletion.covers(cell.written)):
        return False
    return cell.is_live(now)
