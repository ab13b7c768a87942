"""Which log a position is of: a server that began its log anew (RESET MASTER) counts the same GTIDs once more.

A position's note names the file that was read, with the server and the time at which it began the file. So a log that has counted
past what has landed is still told from the one that landed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from pymysql.constants import COMMAND

from cdc_producers.binlog.connections import Access, rows
from cdc_producers.binlog.stream import BinlogStream, DumpRequest

_FORM = re.compile(r"([^/]*)/(.+)@(\d+)")
_BEGINNING = 4
"""The place of a file's first event."""


class LogFile(NamedTuple):
    """A file of a server's log: the server's own id, the file's name, and when it began, in seconds by the server's clock."""

    server: str
    name: str
    began: int

    def __str__(self) -> str:
        return f"{self.server}/{self.name}@{self.began}"

    @classmethod
    def read(cls, text: str) -> LogFile | None:
        """Read that form; None if it is another one, such as the notes of earlier releases."""
        found = _FORM.fullmatch(text)
        return None if found is None else cls(found[1], found[2], int(found[3]))


def noted(log: LogFile | None, gtids: str) -> str:
    """Return the note of a position: its log, which seldom changes, and what the flavour adds."""
    return gtids if log is None else f"{log};{gtids}"


def gtids_in(note: str) -> str:
    """Return what the flavour added to a note."""
    return note.rpartition(";")[2]


def log_in(note: str) -> LogFile | None:
    """Return the log that a note names; None if it names none."""
    return LogFile.read(note.rpartition(";")[0])


def names_of_logs(connection: Any) -> list[str]:
    """Return the names of the log's files, oldest first."""
    return [str(row[0]) for row in rows(connection, "SHOW BINARY LOGS", doing="asking for its binlog")]


def began_at(access: Access, name: str, *, replica_number: int, heartbeat_seconds: float) -> int:
    """Return when the server began a file of its log, which its first event says."""
    # without the set of GTIDs that other readers send, the server begins where the payload says
    request = DumpRequest(
        (
            "SET @master_binlog_checksum = @@global.binlog_checksum",
            "SET @source_binlog_checksum = @@global.binlog_checksum",
            "SET @mariadb_slave_capability = 4",
        ),
        COMMAND.COM_BINLOG_DUMP,
        struct.pack("<IHI", _BEGINNING, 0, replica_number) + name.encode(),
    )
    stream = BinlogStream(access, replica_number, heartbeat_seconds, request)
    try:
        return stream.read_format().timestamp
    finally:
        stream.close()


def is_behind_all(log: LogFile, names: Sequence[str]) -> bool:
    """Return whether a file that the server lacks has a higher number than all of `names`: only a log begun anew counts back."""
    base, _, number = log.name.rpartition(".")
    others = [other.rpartition(".")[2] for other in names if other.rpartition(".")[0] == base]
    return number.isdigit() and bool(others) and all(other.isdigit() and int(other) < int(number) for other in others)
