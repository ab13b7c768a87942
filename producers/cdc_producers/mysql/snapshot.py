"""Where a snapshot of MySQL is. The server does not say which place of the binlog a transaction sees.

A table's mark is known: a set of GTIDs, of which everything is committed before the snapshot's transaction begins. So the
snapshot sees all of the set, and maybe some of what comes after it. Its rows rank at the set, below every change that is read
behind it. Hence:

- A change in the set: the snapshot has its result. Nothing of it is read again, and what of it landed ranks at or below the rows.
- A change behind the set that the snapshot does not see: its event ranks above the rows.
- A change behind the set that the snapshot sees: its event comes once more, above the rows. A row shows an older value, or is
  there again, until all that the snapshot has seen was read; every later change of the row comes too, in order, so the row
  ends as the source has it. A row that the snapshot lacks because it was deleted meanwhile comes and goes again.

So the view is that of one moment once the log is read past the snapshot's end. The binlog's order need not be that of commits,
because a set says which transactions it has, not until when. An attempt that was stopped may have landed rows of another moment
at the same rank: wherever two attempts differ, a change behind the set follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cdc_producers.binlog.connections import Access, rows
from cdc_producers.binlog.events import BinlogPosition
from cdc_producers.binlog.marks import SEQUENCE_BITS, Mark
from cdc_producers.binlog.snapshots import ConsistentSnapshot, begin_snapshot, snapshot_connection
from cdc_producers.mysql.gtids import GtidSet
from cdc_views.errors import TransientError
from cdc_views.landing import Position


@dataclass
class MySqlSnapshot(ConsistentSnapshot):
    """A snapshot that sees everything that the tables' marks have."""

    def place(self, mark: Mark) -> BinlogPosition:
        return BinlogPosition("", 0, mark.sequence - 1, 0, self.file, self.position)

    def at(self, mark: Mark, known: Position | None) -> Position:
        # attempts are counted: rows without an integer key have numbers, which another attempt gives to other rows
        before = 0 if known is None else known.at & (1 << SEQUENCE_BITS) - 1
        return Mark(mark.epoch, before + 1).position


@contextmanager
def reading(access: Access, landed: list[GtidSet], asks_end_by: str) -> Iterator[MySqlSnapshot]:
    """Open a connection that sees the database as of one moment, at which everything of `landed` is committed."""
    with snapshot_connection(access) as connection:
        executed = executed_by(connection)
        for one in landed:
            if missing := executed.lacks(one):
                raise TransientError(f"the server that would be read for a snapshot lacks {missing}, which has landed")
        begin_snapshot(connection)
        file, position, *_ = rows(connection, asks_end_by, doing="asking for its binlog")[0]
        yield MySqlSnapshot(connection, str(file), int(position), str(executed))


def executed_by(connection: Any) -> GtidSet:
    """Return the GTIDs of everything that is committed."""
    ((text,),) = rows(connection, "SELECT @@global.gtid_executed", doing="asking for its GTIDs")
    return GtidSet.read(str(text or ""))
