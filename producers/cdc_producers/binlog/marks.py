"""How far a table's binlog has landed, as two integers and a note; and what a flavour's GTIDs tell.

`Position.at` is the *epoch* and the sequence number of the transaction that is being landed. The epoch grows with each
`--snapshot-again`, as the server may count from 1 again. `nth` is how many places of the transaction have landed, below 32 bits
that the flavour uses as it likes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cdc_producers.binlog.log_events import Event
from cdc_producers.binlog.log_files import LogFile, gtids_in, log_in
from cdc_views.errors import EngineError
from cdc_views.landing import Position

SEQUENCE_BITS = 48
_EPOCHS = 1 << 15
_ORDINAL_BITS = 31
MOST_ORDINALS = (1 << _ORDINAL_BITS) - 1


class Mark(NamedTuple):
    """The parts of a `Position` and its note: MariaDB's `previous` wrote the transaction before, MySQL's tells the GTID."""

    epoch: int
    sequence: int
    previous: int = 0
    ordinal: int = 0
    note: str = ""

    @property
    def position(self) -> Position:
        """The two integers; raises `EngineError` if a part is too large for them."""
        if not (0 <= self.epoch < _EPOCHS and 0 <= self.sequence < 1 << SEQUENCE_BITS and self.ordinal <= MOST_ORDINALS):
            raise EngineError(
                f"{self[:4]}: an epoch below 2^15, a GTID's sequence below 2^48 and at most 2^31 rows are supported"
            )
        return Position(self.epoch << SEQUENCE_BITS | self.sequence, self.previous << _ORDINAL_BITS | self.ordinal)

    @property
    def gtids(self) -> str:
        """What the flavour noted."""
        return gtids_in(self.note)

    @property
    def log(self) -> LogFile | None:
        """The log that it is a place of; None if an earlier release landed it."""
        return log_in(self.note)

    @classmethod
    def of(cls, position: Position, note: str = "") -> Mark:
        """Return the parts of a position."""
        at, nth = position
        sequence, ordinal = at & (1 << SEQUENCE_BITS) - 1, nth & MOST_ORDINALS
        return cls(at >> SEQUENCE_BITS, sequence, nth >> _ORDINAL_BITS, ordinal, note)


@dataclass(frozen=True, slots=True)
class TransactionBegin:
    """A transaction begins.

    Attributes:
        gtid: As the server prints it.
        server: The id of the server that wrote it.
        sequence: Its place in the order of writes; counts only if `is_ours`.
        is_single: It is one statement and has no end of its own, unless that statement begins a transaction (MySQL).
        prepared: The name of the XA transaction that it prepares.
        completed: The name of the XA transaction that it commits or rolls back.
        is_ours: Whether it belongs to what is followed; MariaDB has domains without an order among each other.
    """

    gtid: str
    server: int
    sequence: int
    is_single: bool
    prepared: bytes = b""
    completed: bytes = b""
    is_ours: bool = True


class LogPlace(Protocol):
    """How far a log has been read: behind which transaction. Its text names that transaction.

    `log` is the file that is being read; None before the first one.
    """

    log: LogFile | None

    @property
    def note(self) -> str:
        """What lands with a position, so that reading goes on here, and in this log alone."""

    def begins(self, event: Event, starts: Iterable[Mark]) -> TransactionBegin:
        """Read a GTID event; raises `LostError` if it cannot follow what was read. `starts`: how far the tables had landed."""

    def previous(self, begin: TransactionBegin, starts: Iterable[Mark]) -> int:
        """Return `Mark.previous` of this transaction; raises `LostError` if another one has landed in its place."""

    def ended(self, begin: TransactionBegin) -> None:
        """Note that a transaction of ours has ended."""

    def mark(self, epoch: int) -> Mark:
        """Return the mark of a table that has landed everything up to here, and nothing later."""
