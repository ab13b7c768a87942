"""MySQL's GTIDs: sets of `uuid:number`, or `uuid:tag:number`, of several servers, and how far the log was read by them.

A set has no order. The log of one server has: so a transaction's sequence number is how many transactions the set has with it.
The number is the same on another server that takes over, as long as its log has the same order, which MySQL's replicas keep by
default (`replica_preserve_commit_order`); where one did not, that is noticed. The set itself lands as a note with each position.
"""

from __future__ import annotations

import re
import struct
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cdc_producers.binlog import log_events
from cdc_producers.binlog.log_events import Event
from cdc_producers.binlog.log_files import LogFile, noted
from cdc_producers.binlog.marks import LogPlace, Mark, TransactionBegin
from cdc_producers.source import LostError
from cdc_views.errors import EngineError

Source = tuple[uuid.UUID, str]
"""Who counts: a server, or a group, and the tag, which is usually empty."""
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_AGAIN = "start once with --snapshot-again"


@dataclass
class GtidSet:
    """Numbers of each source, as intervals with both ends: ascending, without neighbours that touch."""

    intervals: dict[Source, list[tuple[int, int]]] = field(default_factory=dict)
    count: int = 0
    _text: str | None = None

    @classmethod
    def read(cls, text: str) -> GtidSet:
        """Read MySQL's form, as `3e11fa47-…:1-5:7,4f…:1`; raises `EngineError` for anything else."""
        found = cls()
        for part in filter(None, re.sub(r"\s", "", text or "").split(",")):
            name, *rest = part.split(":")
            try:
                source = uuid.UUID(name), ""
            except ValueError:
                raise EngineError(f"{name!r} begins no GTID of MySQL's; uuid:number was expected") from None
            for one in rest:
                interval = _INTERVAL.fullmatch(one)
                if interval is not None:
                    found.add(source, int(interval[1]), int(interval[2] or interval[1]))
                elif _TAG.fullmatch(one.lower()):
                    source = source[0], one.lower()
                else:
                    raise EngineError(f"{one!r} is no part of a GTID of MySQL's; a number, an interval or a tag was expected")
        return found

    def __str__(self) -> str:
        if self._text is None:
            by_server: dict[uuid.UUID, list[str]] = {}
            for (server, tag), intervals in sorted(self.intervals.items()):
                parts = by_server.setdefault(server, [])
                parts += [tag] * bool(tag)
                parts += [str(first) if first == last else f"{first}-{last}" for first, last in intervals]
            self._text = ",".join(":".join([str(server), *parts]) for server, parts in by_server.items())
        return self._text

    def add(self, source: Source, first: int, last: int | None = None) -> None:
        """Add numbers of a source; those that are there already count once."""
        last = first if last is None else last
        known = self.intervals.setdefault(source, [])
        self._text = None
        if known and known[-1][1] + 1 == first:  # nearly always
            known[-1] = known[-1][0], last
            self.count += last - first + 1
            return
        before = sum(b - a + 1 for a, b in known)
        self.intervals[source] = merged = list(_merged(sorted([*known, (first, last)])))
        self.count += sum(b - a + 1 for a, b in merged) - before

    def has(self, source: Source, number: int) -> bool:
        """Return whether the set has this GTID."""
        return any(first <= number <= last for first, last in self.intervals.get(source, ()))

    def lacks(self, other: GtidSet) -> str:
        """Return the first interval of the other set that this one has not as a whole; empty if there is none."""
        for (server, tag), intervals in other.intervals.items():
            mine = self.intervals.get((server, tag), [])
            for first, last in intervals:
                if not any(a <= first and last <= b for a, b in mine):
                    return ":".join(filter(None, (str(server), tag, f"{first}-{last}")))
        return ""

    def encoded(self) -> bytes:
        """Return the bytes that ask a server for everything else. Source: MySQL 9.7, `Gtid_set::encode`, as a description."""
        is_tagged = any(tag for _, tag in self.intervals)
        count = len(self.intervals)
        parts = [struct.pack("<Q", count << 8 | 1 << 56 | 1 if is_tagged else count)]
        for (server, tag), intervals in sorted(self.intervals.items()):
            name = bytes([len(tag) << 1]) + tag.encode() if is_tagged else b""
            parts.append(server.bytes + name + struct.pack("<Q", len(intervals)))
            parts += [struct.pack("<QQ", first, last + 1) for first, last in intervals]
        return b"".join(parts)


def _merged(intervals: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    first, last = 0, -1
    for a, b in intervals:
        if last >= 0 and a <= last + 1:
            last = max(last, b)
            continue
        if last >= 0:
            yield first, last
        first, last = a, b
    yield first, last


@dataclass
class MySqlPlace(LogPlace):
    """Behind the transactions of a set. `landed` are the sets of tables that are further, by their counts."""

    executed: GtidSet
    landed: Mapping[int, str] = field(default_factory=dict)
    log: LogFile | None = None
    _next: tuple[Source, int] | None = None
    _last: str = ""

    def __str__(self) -> str:
        return self._last or str(self.executed) or "the beginning"

    @property
    def note(self) -> str:
        return noted(self.log, str(self.executed))

    def begins(self, event: Event, starts: Iterable[Mark]) -> TransactionBegin:
        if event.kind == log_events.ANONYMOUS:
            raise LostError(
                f"the log has a transaction without a GTID after {self} (gtid_mode was not ON); SET GLOBAL gtid_mode = ON, and "
                f"{_AGAIN}"
            )
        if event.kind == log_events.MARIADB_GTID:
            raise LostError("the log has a GTID of MariaDB's: read it by `produce mariadb`")
        source, number = self._next = read_gtid(event)
        gtid = ":".join(filter(None, (str(source[0]), source[1], str(number))))
        if self.executed.has(source, number):
            raise LostError(f"GTID {gtid} comes twice: the server began to count anew (RESET BINARY LOGS AND GTIDS); {_AGAIN}")
        sequence = self.executed.count + 1
        if sequence in self.landed and not _is_same(self.landed[sequence], self.executed):
            raise LostError(
                f"the log of this server has another order than the one that landed, before {gtid}: a replica that did not keep "
                f"it took over. Set replica_preserve_commit_order = ON on replicas, and {_AGAIN}"
            )
        return TransactionBegin(gtid, event.server, sequence, is_single=True)

    def previous(self, begin: TransactionBegin, starts: Iterable[Mark]) -> int:
        # a number of its own, so that what landed of it is not taken for a part of another one
        number = zlib.crc32(begin.gtid.encode())
        known = max((mark.previous for mark in starts if mark.sequence == begin.sequence and mark.ordinal), default=number)
        if known not in (0, number):  # 0: an earlier release landed it
            raise LostError(
                f"the log of this server has {begin.gtid} before or in place of the one that landed last: a server took over "
                f"that lacks the last one, or wrote transactions of its own; {_AGAIN}"
            )
        return known

    def ended(self, begin: TransactionBegin) -> None:
        assert self._next is not None, "it has begun"
        self.executed.add(*self._next)
        self._last = begin.gtid

    def mark(self, epoch: int) -> Mark:
        return Mark(epoch, self.executed.count + 1, note=self.note)


def _is_same(text: str, found: GtidSet) -> bool:
    return text == str(found)


def read_gtid(event: Event) -> tuple[Source, int]:
    """Read the GTID of an event of kind 33 or 42."""
    body = event.body
    if event.kind == log_events.MYSQL_GTID:
        return (uuid.UUID(bytes=body[1:17]), ""), int.from_bytes(body[17:25], "little")
    return _tagged(body)


_SERVER, _NUMBER, _TAG_FIELD = 1, 2, 3


def _tagged(body: bytes) -> tuple[Source, int]:
    """Read MySQL's own serialization: three numbers about the message, then fields by their ids.

    Source: MySQL 9.7, `libs/mysql/serialization/readme.md` and `Gtid_event`, read as a description; checked against 9.7.4.
    """
    _, at = _varied(body, 0)
    _, at = _varied(body, at)
    _, at = _varied(body, at)
    server, number, tag = b"", 0, ""
    while not tag and at < len(body):
        field_id, at = _varied(body, at)
        if field_id == _SERVER:
            parts = []
            for _ in range(16):
                part, at = _varied(body, at)
                parts.append(part)
            server = bytes(parts)
        elif field_id == _NUMBER:
            found, at = _varied(body, at)
            number = found >> 1
        elif field_id == _TAG_FIELD:
            size, at = _varied(body, at)
            tag = body[at : at + size].decode()
            break
        else:
            _, at = _varied(body, at)
    return (uuid.UUID(bytes=server), tag), number


def _varied(content: bytes, at: int) -> tuple[int, int]:
    """Return an integer whose first byte's lowest ones tell how many bytes follow, and where it ends."""
    more = 0
    while more < 8 and content[at] >> more & 1:
        more += 1
    end = at + 1 + more
    if more == 8:
        return int.from_bytes(content[at + 1 : end], "little"), end
    return int.from_bytes(content[at:end], "little") >> more + 1, end
