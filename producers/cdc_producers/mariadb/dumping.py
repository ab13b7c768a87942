"""How MariaDB is asked for its binlog: behind one GTID of each domain."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from pymysql.constants import COMMAND

from cdc_producers.binlog.stream import DumpRequest
from cdc_producers.mariadb.gtids import Gtid

_CAPABILITY = 4
"""This reader knows GTIDs. Source: MariaDB 11.4, `MARIA_SLAVE_CAPABILITY_GTID`."""


def dump_after(start: Iterable[Gtid], replica_number: int, heartbeat_seconds: float) -> DumpRequest:
    """Return the request for everything behind these transactions, one for each domain."""
    state = ",".join(map(str, start))
    statements = (
        "SET @master_binlog_checksum = @@global.binlog_checksum",
        f"SET @master_heartbeat_period = {int(heartbeat_seconds * 1_000_000_000)}",
        f"SET @mariadb_slave_capability = {_CAPABILITY}",
        f"SET @slave_connect_state = '{state}'",
        "SET @slave_gtid_strict_mode = 0",
        "SET @slave_gtid_ignore_duplicates = 0",
    )
    return DumpRequest(statements, COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", 4, 0, replica_number))
