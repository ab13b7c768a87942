"""The MariaDB source: followed by GTIDs of one domain."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from cdc_producers.binlog.catalog import Server
from cdc_producers.binlog.connections import Access, rows
from cdc_producers.binlog.marks import LogPlace
from cdc_producers.binlog.snapshots import ConsistentSnapshot
from cdc_producers.binlog.source import BinlogSource
from cdc_producers.binlog.stream import DumpRequest
from cdc_producers.binlog.table_maps import MARIADB_CHARACTER
from cdc_producers.mariadb import gtids
from cdc_producers.mariadb.dumping import dump_after
from cdc_producers.mariadb.gtids import Gtid, MariaDbPlace, read_gtids
from cdc_producers.mariadb.options import MariaDbOptions
from cdc_producers.mariadb.server import MARIADB, MariaDbServer, read_server
from cdc_producers.mariadb.snapshot import reading


@dataclass
class MariaDbSource(BinlogSource):
    """Reads the tables that have no snapshot yet, then follows the binlog."""

    flavour = MARIADB
    character = MARIADB_CHARACTER
    locking = "LOCK IN SHARE MODE WAIT 10"  # longer than others wait to see a commit

    def _read_server(self, connection: Any) -> Server:
        return read_server(connection, log=self.log)

    def _domain(self, server: Server) -> int:
        assert isinstance(server, MariaDbServer)
        assert isinstance(self.options, MariaDbOptions)
        return server.domain if self.options.gtid_domain is None else self.options.gtid_domain

    def _named(self, server: Server) -> str:
        return f"{self.options.name}:{self._domain(server)}"

    def _current(self, connection: Any, server: Server) -> LogPlace:
        domain = self._domain(server)
        return MariaDbPlace(self._ends(connection).get(domain, Gtid(domain, 0, 0)))

    @staticmethod
    def _ends(connection: Any) -> dict[int, Gtid]:
        ((text,),) = rows(connection, "SELECT @@gtid_binlog_pos", doing="asking for its GTIDs")
        return read_gtids(str(text or ""))

    def _start(self, server: Server) -> LogPlace:
        return MariaDbPlace(gtids.start(min(self._marks.values(), key=lambda mark: mark.sequence), self._domain(server)))

    def _check_reach(self, connection: Any, start: LogPlace) -> None:
        assert isinstance(start, MariaDbPlace)
        domain = start.last.domain
        furthest = max(mark.sequence - (0 if mark.ordinal else 1) for mark in self._marks.values())
        current = self._ends(connection).get(domain, Gtid(domain, 0, 0))
        said = f"the server's binlog ends at {current}, before {domain}-…-{furthest}, which has landed"
        self._wait_for(said if current.sequence < furthest else "")

    def _request(self, connection: Any, start: LogPlace) -> DumpRequest:
        assert isinstance(start, MariaDbPlace)
        # nothing of other domains is wanted, but a domain without a start would come from its beginning
        others = {domain: gtid for domain, gtid in self._ends(connection).items() if domain != start.last.domain}
        wanted = [gtid for gtid in (start.last, *others.values()) if gtid.sequence]
        return dump_after(wanted, self.options.replica_number, self.options.heartbeat_seconds)

    def _reading(self, access: Access, server: Server) -> AbstractContextManager[ConsistentSnapshot]:
        return reading(access, self._domain(server))
