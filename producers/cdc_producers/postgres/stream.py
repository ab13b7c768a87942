"""Reading a slot: messages in, positions confirmed only once they have landed."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from cdc_producers.postgres.connections import connect, postgres_errors
from cdc_producers.postgres.pgoutput import Begin, Commit, Message, Reader

_WAIT_SECONDS = 0.2
_CONFIRM_EVERY = 1.0


@dataclass
class Progress:
    """How far the slot's transactions were read and landed, over all connections of a run: ends of transactions."""

    read: int = 0
    landed: int = 0

    def land(self, end: int) -> None:
        """Note that all transactions that end by `end` are committed in every table."""
        self.landed = max(self.landed, end)


@dataclass
class SlotStream:
    """One connection that reads a slot."""

    slot: str
    publication: str
    heartbeat_seconds: float
    progress: Progress
    read_to: int = 0
    heard: float = 0.0
    _connection: Any = None
    _cursor: Any = None
    _is_inside: bool = False
    _confirmed: int = 0
    _confirmed_at: float = 0.0
    _asked_at: float = 0.0
    _reader: Reader = field(default_factory=Reader)

    def open(self) -> None:
        """Connect and start at the slot's confirmed position."""
        self._connection = connect(is_replication=True)
        self._cursor = self._connection.cursor()
        options = {"proto_version": "1", "publication_names": _as_list(self.publication)}
        with postgres_errors(f"starting slot {self.slot}"):
            self._cursor.start_replication(slot_name=self.slot, decode=False, status_interval=10, options=options)

    def follow(self, stop: Event, take: Callable[[Message], None]) -> None:
        """Give each message to `take` until `stop` is set; raises `TransientError` where the connection breaks."""
        while not stop.is_set():
            with postgres_errors(f"reading slot {self.slot}"):
                received = self._cursor.read_message()
            if received is None:
                self._idle()
                continue
            self.heard = time.time()
            self.read_to = max(self.read_to, received.data_start)
            message = self._reader.read(received.payload)
            if message is not None:
                self._note(message)
                take(message)
            if time.monotonic() - self._confirmed_at > _CONFIRM_EVERY:
                self.confirm()

    def _note(self, message: Message) -> None:
        if isinstance(message, Begin):
            self._is_inside = True
        elif isinstance(message, Commit):
            self._is_inside = False
            self.progress.read = max(self.progress.read, message.end)

    def _idle(self) -> None:
        """Nothing came: confirm, ask the server for a sign of life now and then, wait."""
        with postgres_errors(f"reading slot {self.slot}"):
            self.read_to = max(self.read_to, self._cursor.wal_end or 0)
            spoke = self._cursor.io_timestamp
            self.heard = spoke.timestamp() if spoke is not None else self.heard
            self.confirm(is_idle=True)
            if time.monotonic() - self._asked_at > self.heartbeat_seconds:
                self._asked_at = time.monotonic()
                self._cursor.send_feedback(reply=True, force=True)
            select.select([self._cursor], [], [], _WAIT_SECONDS)

    def confirm(self, *, is_idle: bool = False) -> None:
        """Tell the server what has landed, so that it may let go of that part of the log.

        Where all that came has landed and nothing is half read, that is all the server has looked at: log of other
        tables or databases is not kept for us.
        """
        done = self.progress.landed
        if is_idle and not self._is_inside and done >= self.progress.read:
            done = max(done, self.read_to)
        if done > self._confirmed:
            with postgres_errors(f"confirming slot {self.slot}"):
                self._cursor.send_feedback(write_lsn=done, flush_lsn=done, apply_lsn=done, force=True)
            self._confirmed = done
        self._confirmed_at = time.monotonic()

    def keep_alive(self) -> None:
        """Tell the server that this end lives, while nothing is read."""
        with postgres_errors(f"keeping slot {self.slot}"):
            done = max(self.progress.landed, self._confirmed)
            self._cursor.send_feedback(write_lsn=done, flush_lsn=done, apply_lsn=done, force=True)

    def close(self) -> None:
        """Confirm and disconnect."""
        connection, self._connection = self._connection, None
        if connection is None or connection.closed:
            return
        try:
            self.confirm()
        finally:
            connection.close()


def _as_list(publication: str) -> str:
    return '"' + publication.replace('"', '""') + '"'
