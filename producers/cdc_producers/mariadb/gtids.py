"""GTIDs, and the position of a table in the binlog as two integers.

`Position.at` is the *epoch* and the sequence number of the transaction that is being landed. `nth` is the server that wrote the
transaction before it, and how many places of this one have landed. So the GTID to read from is always known:
`domain-server-(sequence - 1)`. The epoch grows with each `--snapshot-again`, as the server may count from 1 again.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cdc_views.errors import EngineError
from cdc_views.landing import Position

SEQUENCE_BITS = 48
_EPOCHS = 1 << 15
_ORDINAL_BITS = 31
MOST_ORDINALS = (1 << _ORDINAL_BITS) - 1
_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")


class Gtid(NamedTuple):
    """A transaction's global number: the domain that counts, the server that wrote the transaction, and the count."""

    domain: int
    server: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"


def read_gtids(text: str) -> dict[int, Gtid]:
    """Return the last GTID of each domain from MariaDB's form, as `0-1-5,1-2-3`."""
    found: dict[int, Gtid] = {}
    for part in filter(None, (text or "").replace(" ", "").split(",")):
        match = _GTID.fullmatch(part)
        if match is None:
            raise EngineError(f"{part!r} is no GTID of MariaDB's; domain-server-sequence was expected")
        gtid = Gtid(*map(int, match.groups()))
        found[gtid.domain] = gtid
    return found


class Mark(NamedTuple):
    """The parts of a `Position`; `previous` is the server that wrote the transaction before `sequence`."""

    epoch: int
    sequence: int
    previous: int
    ordinal: int = 0

    @property
    def position(self) -> Position:
        """The two integers; raises `EngineError` if a part is too large for them."""
        if not (0 <= self.epoch < _EPOCHS and 0 <= self.sequence < 1 << SEQUENCE_BITS and self.ordinal <= MOST_ORDINALS):
            raise EngineError(f"{self}: an epoch below 2^15, a GTID's sequence below 2^48 and at most 2^31 rows are supported")
        return Position(self.epoch << SEQUENCE_BITS | self.sequence, self.previous << _ORDINAL_BITS | self.ordinal)

    @classmethod
    def of(cls, position: Position) -> Mark:
        """Return the parts of a position."""
        at, nth = position
        sequence, ordinal = at & (1 << SEQUENCE_BITS) - 1, nth & MOST_ORDINALS
        return cls(at >> SEQUENCE_BITS, sequence, nth >> _ORDINAL_BITS, ordinal)

    @classmethod
    def after(cls, gtid: Gtid, *, epoch: int) -> Mark:
        """Return the mark of a table that has landed everything up to this transaction, and nothing later."""
        return cls(epoch, gtid.sequence + 1, gtid.server)

    def start(self, domain: int) -> Gtid:
        """Return the transaction to read after."""
        return Gtid(domain, self.previous, self.sequence - 1)
