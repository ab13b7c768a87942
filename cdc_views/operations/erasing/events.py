"""Finds the quarantined events and dead letters of a forgotten key by decoding them, and empties them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import EngineError, MalformedEventError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import open_delta
from cdc_views.landing.denylist import ErasedKey
from cdc_views.landing.quarantine import RESOLVED
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.operations.erasing.of_key import OfKey
from cdc_views.operations.erasing.rewriting import batches, rewrite
from cdc_views.rules.facts import Fact
from cdc_views.state.tail import ERASURE
from cdc_views.storage.places import Place, place_of
from cdc_views.storage.table_log import TableLog

_EMPTIED = b'{"forgotten": true}'


@dataclass(frozen=True, slots=True)
class Letters:
    """The dead letters about a key in one file; `lines` are byte offsets and sizes."""

    file: Place
    lines: tuple[tuple[int, int], ...]

    def empty(self) -> None:
        """Overwrite the letters and sync the file; raises `EngineError` if that fails."""
        try:
            with self.file.open("r+b") as out:
                for start, size in self.lines:
                    out.seek(start)
                    out.write(_EMPTIED.ljust(size)[:size])
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise EngineError(f"{self.file}: {error.strerror}; check the path and its permissions") from error


def letters_about(warehouse: Place, decoder: Decoder, key: ErasedKey) -> list[Letters]:
    """Return the dead letters about a key, one entry per file. Only a letter that decodes as an event of the key's table is about
    the key; others belong to other tables or to nobody known.
    """
    found = []
    for file in sorted(warehouse.glob("http/*/dead_letters.jsonl")):
        lines, start = [], 0
        with file.open("rb") as text:
            for line in text:
                letter = line.rstrip(b"\r\n")
                if _is_about(letter, decoder, key):
                    lines.append((start, len(letter)))
                start += len(line)
        if lines:
            found.append(Letters(file, tuple(lines)))
    return found


def _is_about(letter: bytes, decoder: Decoder, key: ErasedKey) -> bool:
    """Try the letter itself, a record in formats with key and value, then its value as posted."""
    _, mark, value = letter.partition(b'"key": null, "value": ')
    for event in (letter, value[:-1]) if mark else (letter,):
        with suppress(MalformedEventError):
            if any(key.is_about(fact) for fact in decoder.facts_as_written(event, line=0, offset=0)):
                return True
    return False


_FRAGMENT = "the start of an event that landed whole; its bytes were removed with those of a forgotten key"
_DROPPED = "could not be decoded, and was dropped when a key was forgotten"
_NEEDED = ("line", "offset", "event", "replay")


class Owner(Enum):
    """Whose a quarantined event is that still has bytes.

    - KEY: of the key to forget.
    - FRAGMENT: the start of an event that later landed whole.
    - UNKNOWN: it cannot be decoded, so it may be about any key.
    - OTHERS: of other keys.
    """

    KEY = "key"
    FRAGMENT = "fragment"
    UNKNOWN = "unknown"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Judge:
    """Tells the events of a quarantine apart, by decoding them; `is_external`: they are rows of an external table."""

    decoder: Decoder
    key: ErasedKey
    is_external: bool

    def tasks(self, tasks: Tasks) -> Tasks:
        """Return where it may decode: a secret stays in this process."""
        return HERE if self.decoder.has_secret else tasks

    def owner(self, row: Mapping[str, Any]) -> tuple[Owner, list[Fact]]:
        """Return whose an event is, and the key's facts in it."""
        if row["replay"] == RESOLVED:
            return Owner.FRAGMENT, []
        place = {"line": 0, "offset": 0} if self.is_external else {"line": row["line"], "offset": row["offset"]}
        try:
            facts = self.decoder.facts_as_written(row["event"], **place)
        except MalformedEventError:
            return Owner.UNKNOWN, []
        mine = [fact for fact in facts if self.key.is_about(fact)]
        return (Owner.KEY if mine else Owner.OTHERS), mine


@dataclass(slots=True)
class Attributed:
    """The number of events that still have bytes, by their owner; `mentioning` of those that may be about any key hold a removed
    text. `of_key` is what the key's events say.
    """

    counts: Counter[Owner] = field(default_factory=Counter)
    mentioning: int = 0
    of_key: OfKey = field(default_factory=OfKey)

    def add(self, other: Attributed) -> None:
        """Add the events of another file."""
        self.counts.update(other.counts)
        self.mentioning += other.mentioning
        self.of_key.add(other.of_key)

    def emptied(self, *, drops_undecodable: bool) -> int:
        """Return how many events are emptied."""
        unknown = self.counts[Owner.UNKNOWN] if drops_undecodable else 0
        return self.counts[Owner.KEY] + self.counts[Owner.FRAGMENT] + unknown


def attributed(location: str, judge: Judge, *, texts: Sequence[bytes] = (), tasks: Tasks) -> Attributed:
    """Sort the events of the quarantine at `location` by owner; `texts` are those that were removed."""
    known = Attributed()
    for one in _by_file(open_delta(location), judge, texts, tasks).values():
        known.add(one)
    return known


def _by_file(table: DeltaTable, judge: Judge, texts: Sequence[bytes], tasks: Tasks) -> dict[str, Attributed]:
    """Return what each file of the version at which a quarantine is open has, by path."""
    root = place_of(table.table_uri)
    files = TableLog.open(root, version=table.version()).added
    paths, sizes = [root / path for path in files], [file.size for file in files.values()]
    found = judge.tasks(tasks).each(partial(_in_file, judge, texts), paths, sizes=sizes, sees=[str(root)])
    return dict(zip(map(str, paths), found, strict=True))


def _in_file(judge: Judge, texts: Sequence[bytes], file: Place) -> Attributed:
    known = Attributed()
    for rows in batches(file):
        for row in (row for row in rows.select(_NEEDED).to_pylist() if row["event"]):
            owner, facts = judge.owner(row)
            known.counts[owner] += 1
            if owner is Owner.UNKNOWN:
                known.mentioning += any(text in row["event"] for text in texts)
            elif facts:
                known.of_key.take_event(facts, judge.decoder)
    return known


def empty(location: str, judge: Judge, *, reason: str, drops_undecodable: bool, tasks: Tasks) -> int:
    """Empty the key's events, the fragments and, if wanted, the undecodable events; returns how many."""
    table = open_delta(location)
    found = _by_file(table, judge, (), tasks)
    counts = {path: one.emptied(drops_undecodable=drops_undecodable) for path, one in found.items()}
    reasons = {Owner.KEY: reason, Owner.FRAGMENT: _FRAGMENT} | ({Owner.UNKNOWN: _DROPPED} if drops_undecodable else {})
    among = {path for path, count in counts.items() if count}
    rewrite(table, partial(_emptied, judge, reasons), mark=ERASURE, among=among, tasks=judge.tasks(tasks))
    return sum(counts.values())


def _emptied(judge: Judge, reasons: Mapping[Owner, str], rows: pa.Table) -> pa.Table:
    needed = rows.select(_NEEDED).to_pylist()
    owners = [judge.owner(row)[0] if row["event"] else Owner.OTHERS for row in needed]
    if reasons.keys().isdisjoint(owners):
        return rows
    columns = {name: rows[name].to_pylist() for name in ("reason", "event", "replay")}
    for at, owner in enumerate(owners):
        if owner in reasons:
            columns["reason"][at], columns["event"][at] = reasons[owner], b""
            columns["replay"][at] = columns["replay"][at] or RESOLVED
    for name, values in columns.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.field(index), pa.array(values, rows.field(index).type))
    return rows
