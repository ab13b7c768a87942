"""Reads a slot's messages; confirms positions only once they have landed.

This is PostgreSQL's streaming replication protocol on libpq itself. psycopg 2 implements it, too, but confirms too much: if the
last message began below the confirmed position, then after a keepalive psycopg 2 confirms all that the server has sent. The
first change of a transaction that overlaps another one begins there.

Source: PostgreSQL 17, "Streaming Replication Protocol"; psycopg 2.9, `pq_read_replication_message`.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg
from psycopg import pq

from cdc_producers.postgres.connections import connect, identifier, refusal
from cdc_producers.postgres.marks import Reached
from cdc_producers.postgres.messages import Begin, Commit, LogicalMessage, Message, MessageReader
from cdc_views.errors import CdcViewsError, EngineError, TransientError

_WAIT_SECONDS = 0.2
_CONFIRM_EVERY = 1.0
_DATA = struct.Struct(">cQQq")
_KEEPALIVE = struct.Struct(">cQqB")
_STATUS = struct.Struct(">cQQQqB")
_POSTGRES_EPOCH = 946_684_800
_UNDEFINED_OBJECT = "42704"
_PASSING = ("08", "53", "55", "57")
"""Classes of errors that pass: connection, resources, an object in use, an operator's intervention."""


class ReplicationStream:
    """One connection that streams a slot; only its own thread calls it.

    The server has sent all commits below `sent_to`; `heard` is when it last sent anything, in epoch seconds, 0 before.
    """

    def __init__(self, command: str) -> None:
        """Connect and send `START_REPLICATION …`; raises `EngineError`, or `TransientError` if the problem may pass."""
        self.sent_to, self.heard, self._flushed = 0, 0.0, 0
        self._owner = connect(is_replication=True)
        self._connection = self._owner.pgconn
        with _away("starting to stream"):
            self._connection.nonblocking = 0
            result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            self._owner.close()
            raise _failed(result)

    def read(self) -> tuple[int, bytes] | None:
        """Return the next message as (LSN, bytes), or None if there is none now."""
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
        """Tell the server that all commits below `flushed` have landed; it keeps the rest."""
        self._flushed = max(self._flushed, flushed)
        micros = int((time.time() - _POSTGRES_EPOCH) * 1_000_000)
        with _away("confirming"):
            self._connection.put_copy_data(_STATUS.pack(b"r", *([self._flushed] * 3), micros, asks_answer))
            self._connection.flush()

    def wait(self, seconds: float) -> None:
        """Wait until the server sends something, at most this long."""
        with _away("streaming"):
            select.select([self._connection.socket], [], [], seconds)

    def close(self) -> None:
        """Disconnect."""
        self._owner.close()


@contextmanager
def _away(doing: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, OSError, ValueError) as error:
        raise TransientError(f"PostgreSQL is away, {doing}: {_said(str(error))}") from error


class NoPublicationError(EngineError):
    """The publication did not exist at the position where the log is read; creating it now does not help."""


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


@dataclass
class Progress:
    """The last ends of transactions read and landed, over a run's connections; raw tables allow confirming up to `marked`."""

    read: int = 0
    landed: int = 0
    marked: int = 0

    def land(self, reached: Reached) -> None:
        """Note a point that is committed in every table."""
        self.landed, self.marked = max(self.landed, reached.landed), max(self.marked, reached.marked)


@dataclass
class SlotStream:
    """One connection that reads a slot from its confirmed position; up to `done_to`, all that concerns the tables has landed."""

    slot: str
    reader: MessageReader
    heartbeat_seconds: float
    progress: Progress
    reads_echoes: bool = False
    read_to: int = 0
    done_to: int = 0
    _echoed: float = 0.0
    _connection: ReplicationStream = field(init=False)
    _is_inside: bool = False
    _confirmed: int = 0
    _confirmed_at: float = 0.0
    _asked_at: float = 0.0

    def __post_init__(self) -> None:
        options = self.reader.options(reads_echoes=self.reads_echoes)
        self._connection = ReplicationStream(f"START_REPLICATION SLOT {identifier(self.slot)} LOGICAL 0/0 ({options})")

    @property
    def heard(self) -> float:
        """When the server last sent anything (epoch seconds, 0 before); with echoes: when the last one that came was written."""
        return self._echoed or self._connection.heard

    def follow(
        self, is_over: Callable[[], bool], take: Callable[[Message], None], all_taken: Callable[[int | None], None]
    ) -> None:
        """Pass each message to `take` until `is_over`; raises `TransientError` if the connection breaks.

        `all_taken` is called whenever there are no more messages for now, and at the end. Its argument is the LSN up to which
        everything was taken, or None inside a transaction.
        """
        stream = self._connection
        while not is_over():
            received = stream.read()
            if received is None:
                all_taken(self._taken_to())
                self._idle()
                continue
            lsn, payload = received
            self.read_to = max(self.read_to, lsn)
            message = self.reader.read(payload)
            if message is not None:
                self._note(message)
                take(message)
            if time.monotonic() - self._confirmed_at > _CONFIRM_EVERY:
                self.confirm()
        all_taken(self._taken_to())

    def _taken_to(self) -> int | None:
        return None if self._is_inside else max(self.progress.read, self._connection.sent_to)

    def _note(self, message: Message) -> None:
        if isinstance(message, Begin):
            self._is_inside = True
        elif isinstance(message, Commit):
            self._is_inside = False
            self.progress.read = max(self.progress.read, message.end)
        elif isinstance(message, LogicalMessage) and message.prefix == self.slot:
            with suppress(ValueError):
                self._echoed = float(message.content)

    def _idle(self) -> None:
        stream = self._connection
        self.read_to = max(self.read_to, stream.sent_to)
        has_landed = not self._is_inside and self.progress.landed >= self.progress.read
        self.done_to = max(self.done_to, stream.sent_to if has_landed else self.progress.landed)
        self.confirm(is_idle=True)
        if time.monotonic() - self._asked_at > self.heartbeat_seconds:
            self._asked_at = time.monotonic()
            stream.confirm(self._confirmed, asks_answer=True)
        stream.wait(_WAIT_SECONDS)

    def confirm(self, *, is_idle: bool = False) -> None:
        """Tell the server up to where every raw table is whole, so that it can release that part of the log."""
        done = max(self.progress.marked, self._confirmed)
        # while messages come, confirm in any case: the server drops a silent client
        if done > self._confirmed or not is_idle:
            self._connection.confirm(done)
            self._confirmed = done
        self._confirmed_at = time.monotonic()

    def close(self) -> None:
        """Confirm and disconnect."""
        with suppress(EngineError):  # what is not confirmed comes again, and is skipped
            self.confirm()
        self._connection.close()
