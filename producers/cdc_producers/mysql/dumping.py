"""How MySQL is asked for its binlog: everything but a set of GTIDs."""

from __future__ import annotations

import struct
import uuid

from cdc_producers.binlog.stream import DumpRequest
from cdc_producers.mysql.gtids import GtidSet

_COM_BINLOG_DUMP_GTID = 0x1E
_THROUGH_GTID = 4
_READERS = uuid.UUID("7f0d3c0e-5d0b-4b5e-9f57-6d1c8f3b2a41")
"""The name space of readers' own UUIDs: a server ends an older connection of the same reader."""


def dump_behind(executed: GtidSet, name: str, replica_number: int, heartbeat_seconds: float) -> DumpRequest:
    """Return the request for everything that is not in the set; `name` tells this reader from others."""
    reader, pause = uuid.uuid5(_READERS, f"{name}:{replica_number}"), int(heartbeat_seconds * 1_000_000_000)
    statements = [
        f"SET @{role}_{variable} = {value}"
        # servers before 8.0.26 know the second name alone
        for roles, variable, value in (
            (("source", "master"), "binlog_checksum", "@@global.binlog_checksum"),
            (("source", "master"), "heartbeat_period", pause),
            (("replica", "slave"), "uuid", f"'{reader}'"),
        )
        for role in roles
    ]
    content = executed.encoded()
    payload = struct.pack("<HIIQI", _THROUGH_GTID, replica_number, 0, 4, len(content)) + content
    return DumpRequest(statements, _COM_BINLOG_DUMP_GTID, payload)
