"""MariaDB as a live source of `verify`: a snapshot is at exactly its GTID."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cdc_producers.binlog.catalog import read_table
from cdc_producers.binlog.connections import connect, rows
from cdc_producers.binlog.verifying import BinlogLive, Seen, access_of
from cdc_producers.mariadb.gtids import read_gtids
from cdc_producers.mariadb.server import MARIADB
from cdc_producers.mariadb.snapshot import reading
from cdc_views.errors import EngineError, UsageError
from cdc_views.landing.live_sources import LiveOrder


@contextmanager
def opened(address: str, order: LiveOrder) -> Iterator[MariaDbLive]:
    """Look at a server; `mariadb://` alone: as the environment says. Each read has a connection of its own."""
    access = access_of(address, MARIADB)
    connection = connect(access)
    try:
        ((domain,),) = rows(connection, "SELECT @@global.gtid_domain_id", doing="asking its domain")
        table = read_table(connection, order.name)
    finally:
        connection.close()
    yield MariaDbLive(access, table, order, domain=int(domain))


@dataclass
class MariaDbLive(BinlogLive):
    """One table, and the domain that the server writes."""

    domain: int = 0

    @contextmanager
    def seen(self) -> Iterator[Seen]:
        with reading(self.access, self.domain) as snapshot:
            behind = snapshot.seen.sequence + 1
            yield Seen(snapshot.connection, behind, lambda: (behind, snapshot.gtid))

    def sequence(self, text: str) -> int:
        try:
            found = read_gtids(text)
        except EngineError as error:
            raise UsageError(f"--at: {error}") from None
        if self.domain not in found:
            raise UsageError(f"--at {text}: has no GTID of domain {self.domain}, which the server writes")
        return found[self.domain].sequence + 1

    def is_ours(self, stream: str) -> bool:
        return stream.endswith(f":{self.domain}")
