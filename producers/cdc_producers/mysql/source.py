"""The MySQL source: followed by sets of GTIDs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from cdc_producers.binlog.catalog import BinlogColumn, Server
from cdc_producers.binlog.connections import Access
from cdc_producers.binlog.marks import LogPlace
from cdc_producers.binlog.snapshots import ConsistentSnapshot
from cdc_producers.binlog.source import BinlogSource
from cdc_producers.binlog.stream import DumpRequest
from cdc_producers.binlog.table_maps import MYSQL_CHARACTER
from cdc_producers.mysql.dumping import dump_behind
from cdc_producers.mysql.gtids import GtidSet, MySqlPlace
from cdc_producers.mysql.server import MYSQL, read_server
from cdc_producers.mysql.snapshot import executed_by, reading


@dataclass
class MySqlSource(BinlogSource):
    """Reads the tables that have no snapshot yet, then follows the binlog."""

    flavour = MYSQL
    character = MYSQL_CHARACTER
    locking = "LOCK IN SHARE MODE"  # waits for `innodb_lock_wait_timeout`

    def _read_server(self, connection: Any) -> Server:
        return read_server(connection, log=self.log)

    def _named(self, server: Server) -> str:
        return self.options.name

    def _current(self, connection: Any, server: Server) -> LogPlace:
        return MySqlPlace(executed_by(connection))

    def _start(self, server: Server) -> LogPlace:
        least = min(self._marks.values(), key=lambda mark: mark.sequence)
        further = {mark.sequence: mark.note for mark in self._marks.values() if mark.sequence > least.sequence}
        return MySqlPlace(GtidSet.read(least.note), further)

    def _check_reach(self, connection: Any, start: LogPlace) -> None:
        executed = executed_by(connection)
        missing = next(filter(None, (executed.lacks(landed) for landed in self._landed())), "")
        self._wait_for(f"the server lacks {missing}, which has landed" if missing else "")

    def _landed(self) -> list[GtidSet]:
        return [GtidSet.read(note) for note in {mark.note for mark in self._marks.values()}]

    def _request(self, connection: Any, start: LogPlace) -> DumpRequest:
        assert isinstance(start, MySqlPlace)
        return dump_behind(start.executed, self.options.name, self.options.replica_number, self.options.heartbeat_seconds)

    def _reading(self, access: Access, server: Server) -> AbstractContextManager[ConsistentSnapshot]:
        return reading(access, self._landed(), server.asks_end_by)

    def _described(self, connection: Any, start: LogPlace) -> Callable[[str], Sequence[BinlogColumn]] | None:
        return None
