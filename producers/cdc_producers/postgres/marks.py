"""The marks that raw tables keep of a slot: how far it may be confirmed, and where changes are missing.

A slot forgets what was confirmed. A raw table that was away then, was restored from a backup, or belongs to another project
would miss changes silently. So each raw table keeps how far the slot may be confirmed without loss to it, `SLOT:confirmed`, and
the slot is never confirmed beyond the least of these. `SLOT:missing` keeps the LSN up to which changes are known to be missing.
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
"""Once the server keeps so much log for tables without changes, they note a mark without waiting for their time."""


class Reached(NamedTuple):
    """All transactions that end by `landed` have landed; every raw table lets the slot be confirmed to `marked`."""

    landed: int
    marked: int


@dataclass
class Marks:
    """Reads and writes the marks of one slot in its raw tables; counts marks that are still in the queue."""

    slot: str
    targets: Mapping[str, StreamTarget]
    _emitted: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Create every raw table before its slot: if a slot then has no raw table, the tables are away."""
        for name in self.targets:
            if self._position(name, "confirmed") is None:
                self._note(name, "confirmed", 0)

    def check_there(self) -> None:
        """Raise `LostError` if the slot, which exists, has no raw table at all."""
        raws = [target.raw for target in self.targets.values()]
        if all(raw is not None and not exists(raw) for raw in raws):
            places = ", ".join(raw.location for raw in raws if raw is not None)
            raise LostError(
                f"slot {self.slot} is there, and none of the raw tables is ({places}): what "
                "landed from it is elsewhere. Put them back (is the disk mounted?), name another --slot, or begin anew with "
                "--snapshot-again"
            )

    def check(self, name: str, landed: Landed, *, confirmed: int) -> None:
        """Raise `LostError` if a table misses changes; the slot is at `confirmed`, 0 if the table is to be read whole."""
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
        """Note that changes of tables up to an LSN are missing, until a later snapshot is read."""
        for name in names:
            self._note(name, "missing", lsn)

    def emitted(self, name: str, lsn: int) -> Emitted:
        """Return a mark to land behind everything emitted before: for this table the slot may be confirmed to `lsn`."""
        self._emitted[name] = lsn
        return Emitted(name, f"{self.slot}:confirmed", Position(lsn))

    def _position(self, name: str, kind: str) -> Position | None:
        return self.targets[name].lander(f"{self.slot}:{kind}").position()

    def _note(self, name: str, kind: str, lsn: int) -> None:
        lander = self.targets[name].lander(f"{self.slot}:{kind}")
        lander.land([], through=Position(lsn), now=datetime.now(timezone.utc))


@dataclass
class Marking:
    """Decides when tables note a mark: with their changes, else rarely, because the mark then costs a commit."""

    marks: Marks
    names: Sequence[str]
    every_seconds: float
    emit: Emit
    marked: int = 0
    landed: int = 0
    _each: dict[str, int] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)

    def begin(self, lsn: int) -> None:
        """Note that all tables are whole with the slot at `lsn`."""
        self._mark(self.names, lsn)
        self.marked = self.landed = lsn

    def ended(self, names: Collection[str], end: int) -> None:
        """Note that everything up to the end of a transaction was emitted, with events of these tables."""
        self.landed = max(self.landed, end)
        self._mark(names, end)
        self._mark_all(end)
        self.emit(Emitted(token=Reached(self.landed, self.marked)))

    def idle(self, lsn: int, *, is_last: bool = False) -> None:
        """Note that the log up to `lsn` has nothing of any table that was not emitted."""
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
