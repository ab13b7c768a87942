"""What the raw tables themselves say of the slot: how far it may have been confirmed, and where changes are missing.

A slot forgets what was confirmed. Whoever reads it next into a raw table that was away meanwhile, was restored from a
backup, or is another project's, misses changes without a word. So each raw table keeps how far the slot may be for it to
be whole, `SLOT:confirmed`, and the slot is never confirmed beyond the least of these. Where changes are known to be
missing, `SLOT:missing` keeps the LSN by which they were.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import NamedTuple

from cdc_producers.postgres.connections import lsn_text
from cdc_producers.postgres.shapes import Landed
from cdc_producers.source import Emit, Emitted, LostError
from cdc_views.landing import Position, exists
from cdc_views.landing.targets import StreamTarget

_CONFIRM_BYTES = 64 << 20
"""Log that is kept for tables without changes before they take note of it, however little time has passed."""


class Reached(NamedTuple):
    """What has landed by a point: all transactions that end by `landed`; every table says that the slot may be at `marked`."""

    landed: int
    marked: int


@dataclass
class Marks:
    """Reads and writes what the raw tables of one slot say, or will say from the queue."""

    slot: str
    targets: Mapping[str, StreamTarget]
    _emitted: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Have every raw table before its slot is made: a slot without any of them is then one whose tables are away."""
        for name in self.targets:
            if self._position(name, "confirmed") is None:
                self._note(name, "confirmed", 0)

    def check_there(self) -> None:
        """Raise `LostError` where there is a slot, and no raw table at all."""
        raws = [target.raw for target in self.targets.values()]
        if all(raw is not None and not exists(raw) for raw in raws):
            places = ", ".join(raw.location for raw in raws if raw is not None)
            raise LostError(
                f"slot {self.slot} is there, and none of the raw tables is ({places}): what "
                "landed from it is elsewhere. Put them back (is the disk mounted?), name another --slot, or begin anew with "
                "--snapshot-again"
            )

    def check(self, name: str, landed: Landed, *, confirmed: int) -> None:
        """Raise `LostError` where changes of a table are missing that the slot no longer has, or that it never had.

        `confirmed` is where the slot is, 0 for a table that is about to be read whole.
        """
        missing = self._position(name, "missing")
        if missing is not None and (landed.snapshot is None or landed.snapshot.at <= missing.at):
            raise LostError(
                f"{name}: changes up to {lsn_text(missing.at)} are missing; start once with --snapshot-again, which reads the "
                "tables anew"
            )
        position = self._position(name, "confirmed")
        known = max(0 if position is None else position.at, self._emitted.get(name, 0))
        if known and confirmed > known:
            raise LostError(
                f"{name}: slot {self.slot} is confirmed up to {lsn_text(confirmed)}, and this raw table only up to "
                f"{lsn_text(known)}: another one landed from it meanwhile, or this one was restored, or left out by --table; "
                "changes are missing. Put the right raw table back, or start once with --snapshot-again"
            )

    def note_missing(self, names: Collection[str], *, lsn: int) -> None:
        """Keep that changes of tables up to an LSN are missing, until a snapshot has been read since."""
        for name in names:
            self._note(name, "missing", lsn)

    def emitted(self, name: str, lsn: int) -> Emitted:
        """Return what lands that the slot may be at `lsn` for a table, behind what was emitted before."""
        self._emitted[name] = lsn
        return Emitted(name, f"{self.slot}:confirmed", Position(lsn))

    def _position(self, name: str, kind: str) -> Position | None:
        return self.targets[name].lander(f"{self.slot}:{kind}").position()

    def _note(self, name: str, kind: str, lsn: int) -> None:
        lander = self.targets[name].lander(f"{self.slot}:{kind}")
        lander.land([], through=Position(lsn), now=datetime.now(timezone.utc))


@dataclass
class Marking:
    """Decides when tables take note of how far the slot may be: with their changes, or now and then.

    A table without changes pays a commit for it, so that happens every so many seconds, or once the server keeps much.
    """

    marks: Marks
    names: Sequence[str]
    every_seconds: float
    emit: Emit
    marked: int = 0
    landed: int = 0
    _each: dict[str, int] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)

    def begin(self, lsn: int) -> None:
        """All tables are whole where the slot is at `lsn`."""
        self._mark(self.names, lsn)
        self.marked = self.landed = lsn

    def ended(self, names: Collection[str], end: int) -> None:
        """Hear that everything up to the end of a transaction was emitted, and of these tables something."""
        self.landed = max(self.landed, end)
        self._mark(names, end)
        self._mark_all(end)
        self.emit(Emitted(token=Reached(self.landed, self.marked)))

    def idle(self, lsn: int, *, is_last: bool = False) -> None:
        """Hear that nothing of any table is in the log up to `lsn` that was not emitted."""
        if lsn > self.marked and self._mark_all(lsn, is_due=is_last):
            self.emit(Emitted(token=Reached(self.landed, self.marked)))

    def _mark_all(self, lsn: int, *, is_due: bool = False) -> bool:
        behind = [name for name in self.names if self._each.get(name, -1) < lsn]
        passed = time.monotonic() - self._since
        if behind and not is_due and passed < self.every_seconds and lsn - self.marked < _CONFIRM_BYTES:
            return False
        self._mark(behind, lsn)
        self.marked, self._since = max(self.marked, lsn), time.monotonic()
        return True

    def _mark(self, names: Collection[str], lsn: int) -> None:
        for name in names:
            self._each[name] = lsn
            self.emit(self.marks.emitted(name, lsn))
