"""Where a snapshot of MariaDB is: the server says which place of the binlog its transaction sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cdc_producers.binlog.connections import Access, literal, rows
from cdc_producers.binlog.events import BinlogPosition
from cdc_producers.binlog.marks import Mark
from cdc_producers.binlog.snapshots import ConsistentSnapshot, begin_snapshot, snapshot_connection
from cdc_producers.mariadb.gtids import Gtid, read_gtids
from cdc_views.errors import EngineError
from cdc_views.landing import Position


@dataclass
class MariaDbSnapshot(ConsistentSnapshot):
    """A snapshot right behind the transaction `seen`."""

    seen: Gtid

    def place(self, mark: Mark) -> BinlogPosition:
        return BinlogPosition(self.gtid, self.seen.server, self.seen.sequence, 0, self.file, self.position)

    def at(self, mark: Mark, known: Position | None) -> Position:
        return Mark(mark.epoch, self.seen.sequence).position


@contextmanager
def reading(access: Access, domain: int) -> Iterator[MariaDbSnapshot]:
    """Open a connection that sees the database as of one moment, with the domain's last GTID at that moment."""
    with snapshot_connection(access) as connection:
        begin_snapshot(connection)
        status = rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'", doing="asking where the snapshot is")
        found = {str(name).lower(): str(value) for name, value in status}
        file, position = found.get("binlog_snapshot_file", ""), found.get("binlog_snapshot_position", "")
        if not file or not position.isdecimal():
            raise EngineError("the server does not say where in its binlog the snapshot is (binlog_snapshot_file)")
        asked = f"SELECT BINLOG_GTID_POS({literal(file)}, {position})"
        ((text,),) = rows(connection, asked, doing="asking for the snapshot's GTID")
        if text is None:
            raise EngineError(f"the server does not know the GTID at {file}:{position}")
        seen = read_gtids(str(text)).get(domain, Gtid(domain, 0, 0))
        yield MariaDbSnapshot(connection, file, int(position), str(seen), seen)
