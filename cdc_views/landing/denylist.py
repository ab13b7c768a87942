"""Remembers forgotten keys, as keyed hashes with instants, so that their older events do not land again.

Each table has one file, `<warehouse>/forgotten/<name>.jsonl`. It is not part of the raw table, and outlives it:

=============  ============================================================================================
member         meaning
=============  ============================================================================================
`check`        first line only: the hash of a fixed text; it detects a wrong secret
`key`          HMAC-SHA256 of the key, hex; the secret is in `<warehouse>/forgotten/secret` (mode 0600) or
               in the environment, `CDC_VIEWS_FORGET_SECRET`
`scope`        `row` or `partition`
`forgotten`    when, µs since the epoch
`through`      the largest write time of the removed facts, null without any; times in µs count up to a day after
               `forgotten`
`ahead`        the largest write time beyond that day, which a wrong clock made; null without any
`is_lifted`    whether events land that were not removed but have no date, or are older than `forgotten`
=============  ============================================================================================

Older facts do not land. With write times in µs these are facts up to `forgotten` or `through`, and facts from the future
up to `ahead`, which are copies of removed facts. Log positions are no clock: there these are facts up to `through`,
and all facts of an event that its source dates before `forgotten` or not at all.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

import pyarrow.dataset as ds

from cdc_views.errors import ConfigError, MalformedEventError
from cdc_views.formats.base import RawFormat, SourceLine, WriteOrder
from cdc_views.model.naming import KIND
from cdc_views.model.schema import TableSchema
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.codec.jsonread import parse_key
from cdc_views.rules.facts import Elements, Fact, FactKind
from cdc_views.storage.places import Place, update, write_new
from cdc_views.storage.relation_read import all_equal, stored_key

NOT_KEPT = b""  # in quarantine, replaces the bytes of an event about a forgotten key
SECRET_VARIABLE = "CDC_VIEWS_FORGET_SECRET"
_SECRET_BYTES = 32
_CHECK = b"cdc-views forget"
_ROW, _PARTITION = "row", "partition"
AHEAD = 86_400 * 1_000_000  # µs; write times further ahead of the clock count as wrong, as in the check `not_from_the_future`
_EARLIEST, _LATEST = -(1 << 127), 1 << 127  # beyond all write times


@dataclass(frozen=True, slots=True)
class ErasedKey:
    """Native values of a partition key and, for one row, of its clustering key; `clustering` None: the whole partition.

    Forgetting a row key removes the facts of that row. Facts about its partition or a range (deletions, static columns)
    also concern other rows, and are removed only with the whole partition.
    """

    schema: TableSchema
    partition: tuple[Any, ...]
    clustering: tuple[Any, ...] | None = None

    @classmethod
    def parse(cls, schema: TableSchema, key: Mapping[str, Any] | str) -> ErasedKey:
        """Return the key that JSON names, in the form of `explain --key`; raises as `codec.jsonread.parse_key`."""
        partition, clustering = parse_key(schema, key)
        return cls(schema, partition, clustering or None)

    @property
    def is_partition(self) -> bool:
        """Whether the key means all rows of the partition."""
        return self.clustering is None

    def canonical(self) -> bytes:
        """Return bytes that are equal iff the keys are equal (rule K1)."""
        return row_bytes(self.schema, self.partition, self.clustering)

    def stored(self) -> dict[str, Any]:
        """Return, by name, the stored values of the columns that decide equality in the raw layout."""
        columns = self.schema.partition + (() if self.clustering is None else self.schema.clustering)
        return stored_key(columns, self.partition + (self.clustering or ()))

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the raw layout that `condition` reads."""
        return frozenset([KIND, *self.stored()])

    def condition(self) -> ds.Expression:
        """Return the condition that selects this key's rows in the raw layout."""
        kind = ds.field(KIND)
        about = kind != FactKind.TABLE.value if self.is_partition else kind == FactKind.ROW.value
        return about & all_equal(self.stored())

    def is_about(self, fact: Fact) -> bool:
        """Whether a fact is removed with this key."""
        if fact.kind is FactKind.TABLE or (fact.kind is not FactKind.ROW and not self.is_partition):
            return False
        clustering = None if self.is_partition else fact.clustering
        return row_bytes(self.schema, fact.partition, clustering) == self.canonical()

    def is_named_by(self, fact: Fact) -> bool:
        """Whether a range deletion, which is kept, has this row's whole clustering key as a bound."""
        if self.clustering is None or fact.kind is not FactKind.RANGE:
            return False
        prefixes = [bound.prefix for bound in (fact.start, fact.end) if bound is not None]
        whole = [prefix for prefix in prefixes if len(prefix) == len(self.schema.clustering)]
        return any(row_bytes(self.schema, fact.partition, prefix) == self.canonical() for prefix in whole)


def row_bytes(schema: TableSchema, partition: tuple[Any, ...], clustering: tuple[Any, ...] | None) -> bytes:
    """Return bytes that are equal iff the keys are (K1): partition keys by their bytes, clustering keys by comparator."""
    parts = [partition_identity(column.type, value) for column, value in zip(schema.partition, partition, strict=True)]
    if clustering is not None:
        parts += [comparable(column.type, value) for column, value in zip(schema.clustering, clustering, strict=True)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _until(written: int | None) -> range:
    return range(_EARLIEST, _EARLIEST if written is None else written + 1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One forgotten key; the module describes the members."""

    key: str
    scope: str
    forgotten: int
    through: int | None = None
    is_lifted: bool = False
    ahead: int | None = None

    def merged(self, later: Entry) -> Entry:
        """Return one entry for a key that was forgotten twice."""
        through, ahead = _larger(self.through, later.through), _larger(self.ahead, later.ahead)
        return replace(later, forgotten=max(self.forgotten, later.forgotten), through=through, ahead=ahead)

    def older(self, order: WriteOrder, *, happened: int | None, now: int) -> tuple[range, ...]:
        """Return the write times that count as older; `happened` is the event's date, `now` its landing time (µs)."""
        if order is WriteOrder.MICROS:
            # entries of earlier versions have no `ahead`
            near = self.through if self.through is not None and self.through <= self.forgotten + AHEAD else None
            ahead = _larger(self.ahead, None if near == self.through else self.through)
            through = near if self.is_lifted else _larger(near, self.forgotten)
            return _until(through), range(now + AHEAD + 1, 0 if ahead is None else ahead + 1)
        is_newer = self.is_lifted or (happened is not None and happened > self.forgotten)
        return (_until(self.through if is_newer else _LATEST),)

    def reason(self) -> str:
        """Return the reason that quarantine keeps for an older event."""
        instant = datetime.fromtimestamp(self.forgotten / 1_000_000, timezone.utc)
        return f"its key was forgotten at {instant.isoformat(timespec='seconds')}; what it said is not kept"


@dataclass(frozen=True, slots=True)
class Denylist:
    """The forgotten keys of one table, as read from its file."""

    file: Place
    secret: bytes = b""
    entries: Mapping[tuple[str, str], Entry] = field(default_factory=dict)
    seen: tuple[int, int] | None = None

    @classmethod
    def read(cls, file: Place) -> Denylist:
        """Return the keys in `file`, none if it does not exist; raises `ConfigError` if they were hashed with another secret."""
        seen = _stamp(file)
        if seen is None:
            return cls(file)
        check, *lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        secret = read_secret(file.parent)
        if secret is None or not hmac.compare_digest(_hash(secret, _CHECK), check["check"]):
            raise ConfigError(
                f"{_secret_file(file.parent)}: is not the secret that the keys in {file} were hashed with, so that events of "
                f"forgotten keys would not be known; put the file back, or set {SECRET_VARIABLE}"
            )
        entries: dict[tuple[str, str], Entry] = {}
        for line in lines:
            entry = Entry(**line)
            known = entries.get((entry.scope, entry.key))
            entries[entry.scope, entry.key] = entry if known is None else known.merged(entry)
        return cls(file, secret, entries, seen)

    def is_current(self) -> bool:
        """Whether the file has not changed since it was read."""
        return _stamp(self.file) == self.seen

    def reread(self) -> Denylist:
        """Return the keys as they are now."""
        return self if self.is_current() else Denylist.read(self.file)

    def entry(self, key: ErasedKey) -> Entry | None:
        """Return the entry of a key; None if it was not forgotten."""
        scope = _PARTITION if key.is_partition else _ROW
        return self.entries.get((scope, _hash(self.secret, key.canonical())))

    def over(self, schema: TableSchema, fact: Fact) -> Entry | None:
        """Return the entry that covers a fact, by its partition or its row; None if there is none."""
        if fact.kind is FactKind.TABLE or not self.entries:
            return None
        whole = self.entries.get((_PARTITION, _hash(self.secret, row_bytes(schema, fact.partition, None))))
        if fact.kind is not FactKind.ROW or not fact.clustering:
            return whole
        row = self.entries.get((_ROW, _hash(self.secret, row_bytes(schema, fact.partition, fact.clustering))))
        return row.merged(whole) if row and whole else row or whole


def add(
    file: Place, key: ErasedKey, *, forgotten: int, through: int | None, is_lifted: bool = False, ahead: int | None = None
) -> None:
    """Remember a key; a killed run leaves the old file or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if read_secret(file.parent) is None:
        with suppress(FileExistsError):  # somebody else forgets the project's first key, too
            write_new(_secret_file(file.parent), f"{secrets.token_hex(_SECRET_BYTES)}\n".encode(), mode=0o600)
    secret = read_secret(file.parent) or b""
    Denylist.read(file)  # checks the secret
    scope = _PARTITION if key.is_partition else _ROW
    entry = Entry(_hash(secret, key.canonical()), scope, forgotten, through, is_lifted, ahead)
    head, line = json.dumps({"check": _hash(secret, _CHECK)}) + "\n", json.dumps(asdict(entry)) + "\n"
    update(file, lambda before: (head if before is None else before) + line, mode=0o644)


def read_secret(folder: Place) -> bytes | None:
    """Return the project's secret, from the environment or its file; None before the first `forget`."""
    given = os.environ.get(SECRET_VARIABLE, "")
    if given:
        return hashlib.sha256(given.encode()).digest()
    file = _secret_file(folder)
    if not file.exists():
        return None
    try:
        return bytes.fromhex(file.read_text("ascii").strip())
    except ValueError as error:
        raise ConfigError(f"{file}: is no secret of cdc-views; {2 * _SECRET_BYTES} hex digits were expected") from error


def without_forgotten(
    forgotten: Denylist, format: RawFormat, facts: Sequence[Fact], *, schema: TableSchema, event: SourceLine, now: int
) -> tuple[list[Fact], str]:
    """Return the facts of an event that may land at `now` (µs), and why the others may not, or an empty text."""
    kept: list[Fact] = []
    reason = ""
    for fact in facts:
        entry = forgotten.over(schema, fact)
        newer = fact if entry is None else _newer(entry, fact, format=format, event=event, now=now)
        if newer is not None:
            kept.append(newer)
        if newer is not fact and newer != fact:
            reason = entry.reason() if entry else reason
    return kept, reason


def _newer(entry: Entry, fact: Fact, *, format: RawFormat, event: SourceLine, now: int) -> Fact | None:
    happened = None
    with suppress(MalformedEventError):
        happened = format.happened(event)
    return newer_part(fact, than=entry.older(format.order, happened=happened, now=now))


_Part = TypeVar("_Part", Cell, Deletion, Liveness)


def newer_part(fact: Fact, *, than: tuple[range, ...]) -> Fact | None:
    """Return a fact without the cells and deletions of these write times; None if nothing is left."""

    def newer(part: _Part | None) -> _Part | None:
        return part if part and not any(part.written in older for older in than) else None

    elements = {
        name: Elements(newer(part.deletion), tuple((path, cell) for path, cell in part.cells if newer(cell)))
        for name, part in fact.elements.items()
    }
    found = replace(
        fact,
        liveness=newer(fact.liveness),
        deletion=newer(fact.deletion),
        cells={name: cell for name, cell in fact.cells.items() if newer(cell)},
        elements={name: part for name, part in elements.items() if part.deletion or part.cells},
    )
    return found if found.liveness or found.deletion or found.cells or found.elements else None


def latest_written(facts: Iterable[Fact], order: WriteOrder, *, now: int) -> tuple[int | None, int | None]:
    """Return the largest write time that is not from the future, and the largest that is (no log position is); None if none."""
    past: int | None = None
    future: int | None = None
    for at in _written(facts):
        if order is WriteOrder.MICROS and at > now + AHEAD:
            future = _larger(future, at)
        else:
            past = _larger(past, at)
    return past, future


def _written(facts: Iterable[Fact]) -> Iterator[int]:
    for fact in facts:
        yield from (part.written for part in (fact.liveness, fact.deletion) if part)
        yield from (cell.written for cell in fact.cells.values())
        for elements in fact.elements.values():
            yield from (cell.written for _, cell in elements.cells)
            yield from [elements.deletion.written] if elements.deletion else []


def _larger(one: int | None, other: int | None) -> int | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _hash(secret: bytes, text: bytes) -> str:
    return hmac.new(secret, text, hashlib.sha256).hexdigest()


def _secret_file(folder: Place) -> Place:
    return folder / "secret"


def _stamp(file: Place) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size
