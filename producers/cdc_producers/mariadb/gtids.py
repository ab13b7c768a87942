"""MariaDB's GTIDs: where its log is, as `domain-server-sequence`.

`Mark.previous` is the server that wrote the transaction before `Mark.sequence`. So the GTID to read from is always known:
`domain-server-(sequence - 1)`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from cdc_producers.binlog.log_events import Event
from cdc_producers.binlog.log_files import LogFile, noted
from cdc_producers.binlog.marks import LogPlace, Mark, TransactionBegin
from cdc_producers.source import LostError
from cdc_views.errors import EngineError

_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")
_STANDALONE, _GROUP_COMMIT, _PREPARED, _COMPLETED = 1, 2, 64, 128


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


def after(gtid: Gtid, *, epoch: int) -> Mark:
    """Return the mark of a table that has landed everything up to this transaction, and nothing later."""
    return Mark(epoch, gtid.sequence + 1, gtid.server)


def start(mark: Mark, domain: int) -> Gtid:
    """Return the transaction to read after."""
    return Gtid(domain, mark.previous, mark.sequence - 1)


@dataclass
class MariaDbPlace(LogPlace):
    """Behind the transaction `last`; the order of its domain counts."""

    last: Gtid
    log: LogFile | None = None
    _begun: str = ""

    @property
    def note(self) -> str:
        return noted(self.log, self._begun)

    def __str__(self) -> str:
        return str(self.last)

    def begins(self, event: Event, starts: Iterable[Mark]) -> TransactionBegin:
        begin = read_begin(event, self.last.domain)
        if begin.is_ours and begin.sequence <= self.last.sequence:
            raise LostError(
                f"GTID {begin.gtid} comes after {self.last}: two servers count on their own (switch gtid_strict_mode on), or the "
                "server began to count anew (RESET MASTER); start once with --snapshot-again"
            )
        self._begun = begin.gtid if begin.is_ours else ""
        return begin

    def previous(self, begin: TransactionBegin, starts: Iterable[Mark]) -> int:
        starts = list(starts)
        for mark in starts:
            if mark.sequence == begin.sequence + 1 and mark.previous != begin.server:
                raise LostError(
                    f"the log of this server has {begin.gtid}, but server {mark.previous} wrote the one of that number "
                    "that a table has landed: a server took over without it; start once with --snapshot-again"
                )
        # if a part of the transaction has landed, keep the server that it landed with
        known = [mark for mark in starts if mark.sequence == begin.sequence and mark.ordinal]
        for mark in known:
            if mark.gtids not in ("", begin.gtid):  # empty: an earlier release landed it
                raise LostError(
                    f"the log of this server has {begin.gtid} in place of the one that landed last, {mark.gtids}: a server took "
                    "over without that; start once with --snapshot-again"
                )
        return known[0].previous if known else self.last.server

    def ended(self, begin: TransactionBegin) -> None:
        self.last, self._begun = Gtid(self.last.domain, begin.server, begin.sequence), ""

    def mark(self, epoch: int) -> Mark:
        return after(self.last, epoch=epoch)._replace(note=self.note)


def read_begin(event: Event, ours: int) -> TransactionBegin:
    """Read a GTID event; `ours` is the domain that is followed."""
    sequence, domain, flags = struct.unpack_from("<QIB", event.body)
    name = b""
    if flags & (_PREPARED | _COMPLETED):
        position = 13 + (8 if flags & _GROUP_COMMIT else 0)
        first, second = event.body[position + 4], event.body[position + 5]
        name = event.body[position : position + 6 + first + second]
    return TransactionBegin(
        str(Gtid(domain, event.server, sequence)),
        event.server,
        sequence,
        bool(flags & _STANDALONE),
        prepared=name if flags & _PREPARED else b"",
        completed=name if flags & _COMPLETED else b"",
        is_ours=domain == ours,
    )
