"""The streaming half of PostgreSQL's replication protocol, on libpq itself.

psycopg 2 has it too, but confirms more than it is told: after a keepalive it takes for landed what the server has sent,
wherever the last message began below what was confirmed. The first change of a transaction that overlaps another does.

Source: PostgreSQL 17, "Streaming Replication Protocol"; psycopg 2.9, `pq_read_replication_message`.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import conninfo, pq

from cdc_producers.postgres.connections import SETTINGS, check_dsn, refusal
from cdc_views.errors import CdcViewsError, EngineError, TransientError

_DATA = struct.Struct(">cQQq")
_KEEPALIVE = struct.Struct(">cQqB")
_STATUS = struct.Struct(">cQQQqB")
_POSTGRES_EPOCH = 946_684_800
_UNDEFINED_OBJECT = "42704"
_PASSING = ("08", "53", "55", "57")
"""Classes of errors that pass: connection, resources, an object in use, an operator's intervention."""


class ReplicationStream:
    """One connection that a slot is streamed over; its thread alone calls it.

    Attributes:
        sent_to: How far the server has read its log for this slot: what committed before was sent before.
        heard: When it last said anything, epoch seconds; 0 before.
    """

    def __init__(self, command: str) -> None:
        """Connect and send `START_REPLICATION …`; raises `EngineError`, a `TransientError` where it may pass."""
        self.sent_to, self.heard, self._flushed = 0, 0.0, 0
        with _away("connecting"):
            given = conninfo.make_conninfo(
                check_dsn(), replication="database", application_name="cdc-views", connect_timeout=10, keepalives_idle=30
            )
            self._connection = pq.PGconn.connect(given.encode())
        if self._connection.status != pq.ConnStatus.OK:
            said = _said(self._connection.get_error_message())
            raise refusal("connecting", said, "") or TransientError(f"PostgreSQL is away, connecting: {said}")
        for name, value in SETTINGS.items():
            self._run(f"SET {name} = '{value}'", pq.ExecStatus.COMMAND_OK)
        self._run(command, pq.ExecStatus.COPY_BOTH)

    def _run(self, command: str, expected: pq.ExecStatus) -> None:
        with _away("starting to stream"):
            result = self._connection.exec_(command.encode())
        if result.status != expected:
            raise _failed(result)

    def read(self) -> tuple[int, bytes] | None:
        """Return the next message as (LSN, bytes); None where none is there now."""
        with _away("streaming"):
            while (body := self._received()) is not None:
                self.heard = time.time()
                if body[:1] == b"w":
                    _, lsn, _, _ = _DATA.unpack_from(body)
                    return lsn, body[_DATA.size :]
                if body[:1] == b"k":
                    _, sent_to, _, wants_answer = _KEEPALIVE.unpack_from(body)
                    self.sent_to = max(self.sent_to, sent_to)
                    if wants_answer:
                        self.confirm(self._flushed)
        return None

    def _received(self) -> bytes | None:
        size, body = self._connection.get_copy_data(1)
        if size == 0:
            self._connection.consume_input()
            size, body = self._connection.get_copy_data(1)
        if size == -1:
            result = self._connection.get_result()
            raise _failed(result) if result is not None else TransientError("PostgreSQL ended the stream")
        return bytes(body) if size > 0 else None

    def confirm(self, flushed: int, *, asks_answer: bool = False) -> None:
        """Tell the server that everything that committed below `flushed` has landed; it keeps the rest."""
        self._flushed = max(self._flushed, flushed)
        micros = int((time.time() - _POSTGRES_EPOCH) * 1_000_000)
        with _away("confirming"):
            self._connection.put_copy_data(_STATUS.pack(b"r", *([self._flushed] * 3), micros, asks_answer))
            self._connection.flush()

    def wait(self, seconds: float) -> None:
        """Wait until something comes, at most so long."""
        with _away("streaming"):
            select.select([self._connection.socket], [], [], seconds)

    def close(self) -> None:
        """Disconnect."""
        self._connection.finish()


@contextmanager
def _away(doing: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, OSError, ValueError) as error:
        raise TransientError(f"PostgreSQL is away, {doing}: {_said(str(error))}") from error


class NoPublicationError(EngineError):
    """The publication was not there where the log is read; it may be there by now, and that does not help."""


def _failed(result: pq.abc.PGresult) -> CdcViewsError:
    code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    said = _said(result.get_error_message())
    if (refused := refusal("streaming", said, code)) is not None:
        return refused
    if code == _UNDEFINED_OBJECT and "publication" in said:
        return NoPublicationError(f"PostgreSQL, streaming: {said}")
    kind = TransientError if code[:2] in _PASSING else EngineError
    return kind(f"PostgreSQL, streaming: {said}")


def _said(message: str) -> str:
    return " ".join(message.split()) or "the connection is closed"
