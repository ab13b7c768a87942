"""MySQL as a live source of `verify`: a snapshot is between two sets of GTIDs, whose counts are the order of writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cdc_producers.binlog.catalog import read_table
from cdc_producers.binlog.connections import connect
from cdc_producers.binlog.snapshots import begin_snapshot, snapshot_connection
from cdc_producers.binlog.verifying import BinlogLive, Seen, access_of
from cdc_producers.mysql.gtids import GtidSet
from cdc_producers.mysql.server import MYSQL
from cdc_producers.mysql.snapshot import executed_by
from cdc_views.errors import EngineError, UsageError
from cdc_views.landing.live_sources import LiveOrder


@contextmanager
def opened(address: str, order: LiveOrder) -> Iterator[MySqlLive]:
    """Look at a server; `mysql://` alone: as the environment says. Each read has a connection of its own."""
    access = access_of(address, MYSQL)
    connection = connect(access)
    try:
        table = read_table(connection, order.name)
    finally:
        connection.close()
    yield MySqlLive(access, table, order)


class MySqlLive(BinlogLive):
    """One table of a server."""

    @contextmanager
    def seen(self) -> Iterator[Seen]:
        with snapshot_connection(self.access) as connection:
            low = executed_by(connection).count + 1
            begin_snapshot(connection)

            def high() -> tuple[int, str]:
                # asked for last: the server shows a transaction's rows a moment before its GTID
                executed = executed_by(connection)
                return executed.count + 1, str(executed)

            yield Seen(connection, low, high)

    def sequence(self, text: str) -> int:
        try:
            return GtidSet.read(text).count + 1
        except EngineError as error:
            raise UsageError(f"--at: {error}") from None

    def is_ours(self, stream: str) -> bool:
        return not stream.endswith(":snapshot")
