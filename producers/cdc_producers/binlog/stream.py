"""The binlog as a replica receives it: one connection, from a GTID on, with heartbeats while nothing happens.

`mysql-replication` reads the same protocol, but is not used. When a connection breaks, it connects again by itself from its first
GTID, in the middle of its output. It returns None for a value that it cannot read, a zero date and a column that a minimal image
leaves out alike. And it makes an object of each value before the text.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import InitVar, dataclass, field
from typing import Any

import pymysql
from pymysql.constants import COMMAND

from cdc_producers.binlog import log_events
from cdc_producers.binlog.connections import Access, connect, rows, server_errors, translated
from cdc_producers.binlog.log_events import Event
from cdc_producers.log_watcher import EVERY, LogWatcher
from cdc_producers.source import LostError
from cdc_views.errors import CdcViewsError, EngineError, TransientError, UsageError

_SILENT_FOR = 15.0
_FATAL_READ = 1236
_MEND = "start once with --snapshot-again: the views empty, and fill from the tables as they are"


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """How a flavour is asked for its log behind some place: `statements` first, then the command with its payload."""

    statements: Sequence[str]
    command: int
    payload: bytes


@dataclass
class BinlogStream:
    """One connection that reads the binlog as `request` asks; only its own thread calls it.

    It has read `file` up to `position`; `heard` is when the server last sent anything, in epoch seconds, 0 before.
    """

    access: Access
    replica_number: int
    heartbeat_seconds: float
    request: InitVar[DumpRequest]
    file: str = ""
    position: int = 0
    heard: float = 0.0
    _connection: Any = field(init=False)
    _has_checksum: bool = False

    def __post_init__(self, request: DumpRequest) -> None:
        connection = connect(self.access, read_timeout=max(_SILENT_FOR, 5 * self.heartbeat_seconds))
        self._connection = connection
        for text in request.statements:
            rows(connection, text, doing="asking for the binlog")
        with server_errors(self.access.flavour, "asking for the binlog"):
            number = struct.pack("<I", self.replica_number)
            connection._execute_command(COMMAND.COM_REGISTER_SLAVE, number + bytes(3) + struct.pack("<HII", 0, 0, 0))
            connection._read_packet()
            connection._execute_command(request.command, request.payload)

    def read(self) -> Event:
        """Return the next event or a heartbeat; raises `LostError` if the server lacks it, `TransientError` if it is away."""
        packet = self._packet()
        self.heard = time.time()
        kind = packet[4] if len(packet) > 4 else 0
        if kind == log_events.FORMAT:
            # a server that knows checksums adds one to this event in any case
            self._has_checksum = log_events.has_checksums(packet)
        has_checksum = self._has_checksum
        if kind == log_events.ROTATE and not self.file:
            has_checksum = self._is_summed(packet)
        event = log_events.read_event(packet, has_checksum=has_checksum)
        if event.kind == log_events.ROTATE:
            self.file, self.position = event.body[8:].decode(), int.from_bytes(event.body[:8], "little")
        elif event.end:
            self.position = event.end
        return event

    def read_format(self) -> Event:
        """Return the description that the file begins with; events before it are passed over."""
        while (event := self.read()).kind != log_events.FORMAT:
            pass
        return event

    def _is_summed(self, packet: bytes) -> bool:
        """Return whether the rotation that begins every stream, before any format description, has a checksum."""
        try:
            log_events.read_event(packet, has_checksum=True)
        except EngineError:
            return False
        return True

    def _packet(self) -> bytes:
        try:
            packet = self._connection._read_packet()
        except pymysql.MySQLError as error:
            raise self._explained(error) from error
        except (OSError, AttributeError) as error:
            raise translated(self.access.flavour, "reading the binlog", error) from error
        if packet.is_eof_packet():
            raise TransientError(f"{self.access.flavour.name} ended the binlog: it is being stopped")
        return bytes(packet.get_all_data()[1:])

    def _explained(self, error: pymysql.MySQLError) -> CdcViewsError:
        code = error.args[0] if error.args else 0
        said = " ".join(str(error.args[-1]).split())
        if code != _FATAL_READ:
            return translated(self.access.flavour, "reading the binlog", error)
        if "server_uuid/server_id" in said or "same server" in said:
            return UsageError(
                f"another reader has server id {self.replica_number}: {said}; run one producer a --name, or give --server-id"
            )
        if "purged" in said or "Could not find GTID state" in said:
            return LostError(
                f"the server has purged binlog that has not landed ({said}); {_MEND}. So that it keeps more: raise "
                "binlog_expire_logs_seconds, and let the producer run"
            )
        if "not in the master's binlog" in said or "more GTIDs" in said:
            return LostError(
                f"the server does not have what landed last ({said}): it is another one, was restored from a backup, or took "
                f"over before it had everything. Name the right one in {self.access.flavour.prefix}HOST, or {_MEND}"
            )
        return LostError(f"the server cannot read its binlog on: {said}; if that stays so, {_MEND}")

    def close(self) -> None:
        """Disconnect."""
        self._connection._force_close()


@dataclass
class BinlogWatcher(LogWatcher):
    """Counts the bytes of the log after the place that `read_to` returns; `behind_bytes` is None before the first look."""

    access: Access
    read_to: Callable[[], tuple[str, int]]
    behind_bytes: int | None = None

    def look_until_stopped(self) -> None:
        with closing(connect(self.access)) as connection:
            while not self._stop.is_set():
                found = rows(connection, "SHOW BINARY LOGS", doing="asking for its binlog")
                self.behind_bytes = behind([(str(row[0]), int(row[1])) for row in found], *self.read_to())
                self._stop.wait(EVERY)


def behind(files: list[tuple[str, int]], file: str, position: int) -> int | None:
    """Return the bytes after a place in a log of these files, oldest first; None if the place is in none of them."""
    names = [name for name, _ in files]
    if file not in names:
        return None
    place = names.index(file)
    return max(0, files[place][1] - position) + sum(size for _, size in files[place + 1 :])
