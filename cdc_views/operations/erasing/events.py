"""Finds the quarantined events and dead letters of a forgotten key by decoding them, and empties them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from cdc_views.errors import EngineError, MalformedEventError
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import delta_errors, open_delta
from cdc_views.landing.denylist import ErasedKey
from cdc_views.landing.quarantine import RESOLVED
from cdc_views.operations.erasing.rewriting import rewrite
from cdc_views.rules.facts import Fact
from cdc_views.state.tail import ERASURE
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import Place

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


@dataclass(slots=True)
class Attributed:
    """Quarantined events that still have bytes, by event id.

    `about` has the facts of the key's events; `fragments` are starts of events that later landed whole; `undecodable` has the
    bytes of events that may be about any key.
    """

    about: dict[str, list[Fact]] = field(default_factory=dict)
    fragments: list[str] = field(default_factory=list)
    undecodable: dict[str, bytes] = field(default_factory=dict)

    def mentioning(self, texts: Sequence[bytes]) -> int:
        """Return how many undecodable events contain one of these texts."""
        return sum(any(text in event for text in texts) for event in self.undecodable.values())


def attributed(location: str, decoder: Decoder, key: ErasedKey, *, is_external: bool) -> Attributed:
    """Sort the events of the quarantine at `location` by owner; `is_external`: they are rows of an external table."""
    known = Attributed()
    with delta_errors(location):
        batches = opened(location).to_pyarrow_dataset().to_batches(columns=["event_id", "line", "offset", "event", "replay"])
    for row in (row for batch in batches for row in batch.to_pylist() if row["event"]):
        if row["replay"] == RESOLVED:
            known.fragments.append(row["event_id"])
            continue
        place = {"line": 0, "offset": 0} if is_external else {"line": row["line"], "offset": row["offset"]}
        try:
            facts = decoder.facts_as_written(row["event"], **place)
        except MalformedEventError:
            known.undecodable[row["event_id"]] = row["event"]
            continue
        mine = [fact for fact in facts if key.is_about(fact)]
        if mine:
            known.about[row["event_id"]] = mine
    return known


def empty(location: str, known: Attributed, *, reason: str, drops_undecodable: bool) -> int:
    """Empty the key's events, the fragments and, if wanted, the undecodable events; returns how many."""
    reasons = dict.fromkeys(known.about, reason) | dict.fromkeys(known.fragments, _FRAGMENT)
    if drops_undecodable:
        reasons |= dict.fromkeys(known.undecodable, _DROPPED)
    rewrite(open_delta(location), lambda rows: _emptied(rows, reasons), mark=ERASURE)
    return len(reasons)


def _emptied(rows: pa.Table, reasons: dict[str, str]) -> pa.Table:
    names = rows["event_id"].to_pylist()
    if reasons.keys().isdisjoint(names):
        return rows
    columns = {name: rows[name].to_pylist() for name in ("reason", "event", "replay")}
    for at, name in enumerate(names):
        if name in reasons:
            columns["reason"][at], columns["event"][at] = reasons[name], b""
            columns["replay"][at] = columns["replay"][at] or RESOLVED
    for name, values in columns.items():
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, rows.field(index), pa.array(values, rows.field(index).type))
    return rows
