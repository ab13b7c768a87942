"""Reading a slot: messages in, positions confirmed only once they have landed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from cdc_producers.postgres.connections import identifier
from cdc_producers.postgres.marks import Reached
from cdc_producers.postgres.pgoutput import Begin, Commit, LogicalMessage, Message, PgOutputReader
from cdc_producers.postgres.replication import ReplicationStream
from cdc_views.errors import EngineError

_WAIT_SECONDS = 0.2
_CONFIRM_EVERY = 1.0


@dataclass
class Progress:
    """How far the slot's transactions were read and landed, over all connections of a run: ends of transactions.

    `marked` is how far the slot may be confirmed: every raw table says so.
    """

    read: int = 0
    landed: int = 0
    marked: int = 0

    def land(self, reached: Reached) -> None:
        """Note that what is said is committed in every table."""
        self.landed, self.marked = max(self.landed, reached.landed), max(self.marked, reached.marked)


@dataclass
class SlotStream:
    """One connection that reads a slot, from its confirmed position on."""

    slot: str
    publications: Sequence[str]
    heartbeat_seconds: float
    progress: Progress
    reads_echoes: bool = False
    read_to: int = 0
    done_to: int = 0
    """Up to where all that concerns the tables has landed."""
    _echoed: float = 0.0
    _connection: ReplicationStream = field(init=False)
    _is_inside: bool = False
    _confirmed: int = 0
    _confirmed_at: float = 0.0
    _asked_at: float = 0.0
    _reader: PgOutputReader = field(default_factory=PgOutputReader)

    def __post_init__(self) -> None:
        names = ",".join(map(identifier, self.publications)).replace("'", "''")
        options = f"proto_version '1', publication_names '{names}'"
        if self.reads_echoes:
            options += ", messages 'true'"
        self._connection = ReplicationStream(f"START_REPLICATION SLOT {identifier(self.slot)} LOGICAL 0/0 ({options})")

    @property
    def heard(self) -> float:
        """When the server last said anything, epoch seconds; 0 before. With echoes: when the last that came was written."""
        return self._echoed or self._connection.heard

    def follow(
        self, is_over: Callable[[], bool], take: Callable[[Message], None], all_taken: Callable[[int | None], None]
    ) -> None:
        """Give each message to `take` until `is_over`; raises `TransientError` where the connection breaks.

        `all_taken` is called wherever there are no more of them for now, and at the end: with up to where the log has
        nothing but what was taken, None amid a transaction.
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
            message = self._reader.read(payload)
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
        """Nothing came: confirm, ask the server for a sign of life now and then, wait."""
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
        """Tell the server up to where every raw table has noted to be whole, so that it may let go of that part of the log."""
        done = max(self.progress.marked, self._confirmed)
        # while it is busy it says so in any case: the server drops who is silent
        if done > self._confirmed or not is_idle:
            self._connection.confirm(done)
            self._confirmed = done
        self._confirmed_at = time.monotonic()

    def close(self) -> None:
        """Confirm and disconnect."""
        with suppress(EngineError):  # what is not confirmed comes again, and is skipped
            self.confirm()
        self._connection.close()
