"""The MySQL source: followed by sets of GTIDs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from cdc_producers.binlog.catalog import Server, read_columns
from cdc_producers.binlog.connections import Access
from cdc_producers.binlog.log_events import Event
from cdc_producers.binlog.logged_tables import Describing
from cdc_producers.binlog.marks import LogPlace
from cdc_producers.binlog.snapshots import ConsistentSnapshot
from cdc_producers.binlog.source import BinlogSource
from cdc_producers.binlog.stream import BinlogStream, DumpRequest
from cdc_producers.binlog.table_maps import MYSQL_CHARACTER
from cdc_producers.mysql.described import DescribedTables
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
        further = {mark.sequence: mark.gtids for mark in self._marks.values() if mark.sequence > least.sequence}
        return MySqlPlace(GtidSet.read(least.gtids), further)

    def _check_reach(self, connection: Any, start: LogPlace) -> None:
        executed = executed_by(connection)
        missing = next(filter(None, (executed.lacks(landed) for landed in self._landed())), "")
        self._wait_for(f"the server lacks {missing}, which has landed" if missing else "")

    def _landed(self) -> list[GtidSet]:
        return [GtidSet.read(gtids) for gtids in {mark.gtids for mark in self._marks.values()}]

    def _request(self, connection: Any, start: LogPlace) -> DumpRequest:
        assert isinstance(start, MySqlPlace)
        return dump_behind(start.executed, self.options.name, self.options.replica_number, self.options.heartbeat_seconds)

    def _reading(self, access: Access, server: Server) -> AbstractContextManager[ConsistentSnapshot]:
        return reading(access, self._landed(), server.asks_end_by)

    def _described(self, connection: Any, server: Server, start: LogPlace) -> Describing:
        assert isinstance(start, MySqlPlace)
        return DescribedTables(
            start,
            columns=lambda table: read_columns(connection, table),
            executed=lambda: executed_by(connection),
            ahead=lambda behind: self._ahead(connection, behind),
            ignores_case=server.ignores_case,
        )

    def _ahead(self, connection: Any, behind: GtidSet) -> Iterator[Event]:
        """Read the log behind a set over a connection of its own, as a reader with another number."""
        assert self._access is not None
        number, pause = self.options.replica_number ^ 1, self.options.heartbeat_seconds
        stream = BinlogStream(self._access, number, pause, dump_behind(behind, self.options.name, number, pause))
        try:
            while True:
                yield stream.read()
        finally:
            stream.close()
