"""Rows whose lists a snapshot told, and the log says more of: they are read again.

No SELECT tells the path of a list's element, so a snapshot makes paths up, and hides what the log may have of the same
elements by a deletion. That is right until the log has something of the old part of such a list: an element that came late,
with an older write time, or an old element that was set or removed. Then the row's lists are read again, and replace
all that is older than the reading. Which rows wait for that is kept in the work folder, before the event lands.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import ListOf

SETTLES_AFTER = 10.0
"""Seconds: what is younger is left to the log, so that a write that is under way is not hidden."""
_DUE_AFTER = SETTLES_AFTER + 2
_EVERYTHING = 1 << 62
_FILE = "lists.db"
_REFERENCE = 1_262_304_000_000_000
"""2010 in µs: paths of prepended elements count down from there (Cassandra's `Lists.java`)."""
_EPOCH = 0x01B21DD213814000
_TABLES = """\
CREATE TABLE IF NOT EXISTS told (name TEXT PRIMARY KEY, since INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS waiting (name TEXT, part TEXT, row TEXT, found REAL, PRIMARY KEY (name, part, row));
CREATE TABLE IF NOT EXISTS replaced (name TEXT, part TEXT, row TEXT, until INTEGER, PRIMARY KEY (name, part, row));
"""


class ListRow(NamedTuple):
    """A row, or a partition's static columns where `row` is empty; both parts of the key are JSON as the log's events have it."""

    name: str
    part: str
    row: str


def lists_of(schema: TableSchema) -> tuple[str, ...]:
    """Return the table's columns that are lists of single elements."""
    columns = (*schema.statics, *schema.regulars)
    return tuple(column.name for column in columns if column.type.is_multicell and isinstance(column.type, ListOf))


def created(path: str) -> int:
    """Return when an element was added (µs), by its path; an element that is set later keeps it."""
    low, middle, high = path.split("-")[:3]
    ticks = (int(high, 16) & 0x0FFF) << 48 | int(middle, 16) << 32 | int(low, 16)
    at = (ticks - _EPOCH) // 10
    return at if at >= _REFERENCE else 2 * _REFERENCE - at


@dataclass
class OldLists:
    """What snapshots told of lists, and which rows are to be read again; used by the log's thread and the snapshot's."""

    folder: Path
    version: int = 0
    _since: dict[str, int] = field(default_factory=dict)
    _base: sqlite3.Connection | None = None
    _lock: Lock = field(default_factory=Lock)

    def tell(self, name: str, since: int) -> None:
        """Note that a snapshot tells the table's lists up to `since` (µs); 0: none does, the log has everything."""
        if self.since(name) != since or name not in self._since:
            with self._lock, self._open() as base:
                base.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (name, since))
            self._since[name] = since
            self.version += 1

    def is_known(self, name: str) -> bool:
        """Whether it is known up to when snapshots told the table's lists."""
        self.since(name)
        return name in self._since

    def since(self, name: str) -> int:
        """Return up to when snapshots told the table's lists (µs); 0 where none did."""
        if name not in self._since and (self.folder / _FILE).exists():
            with self._lock, self._open() as base:
                self._since.update(base.execute("SELECT name, since FROM told").fetchall())
        return self._since.get(name, 0)

    def refresh(self) -> None:
        """Take what another process has noted: a snapshot that is taken alone."""
        before = dict(self._since)
        if (self.folder / _FILE).exists():
            with self._lock, self._open() as base:
                self._since.update(base.execute("SELECT name, since FROM told").fetchall())
        if self._since != before:
            self.version += 1

    def newest(self, name: str) -> int:
        """Return up to when any list of the table was told or replaced (µs): what is younger need not be looked at.

        While rows wait, that is everything: one that is replaced now hides what comes late.
        """
        since = self.since(name)
        if not since or self.waiting():
            return _EVERYTHING if since else 0
        with self._lock, self._open() as base:
            return int(max(since, base.execute("SELECT MAX(until) FROM replaced WHERE name = ?", (name,)).fetchone()[0] or 0))

    def note(self, name: str, lists: Iterable[str], content: bytes) -> None:
        """Look at an event of the log: rows whose lists it says something old of wait from now on."""
        event = json.loads(content)
        if "rows" not in event and "partition_deletion" not in event:
            return
        part, found = _text(event["partition"]), set[ListRow]()
        with self._lock, self._open() as base:
            rows = base.execute("SELECT row, until FROM replaced WHERE name = ? AND part = ?", (name, part)).fetchall()
            until = {str(row): int(limit) for row, limit in rows}
            if "partition_deletion" in event:
                found |= _older(name, part, until, event["partition_deletion"])
            for row in event.get("rows", ()):
                if row["kind"] == "range_deletion":
                    found |= _older(name, part, until, row["deletion"])
                    continue
                key = _text(row["clustering"]) if row["kind"] == "row" else ""
                if _says_old(row, frozenset(lists), until.get(key, self._since.get(name, 0)), was_replaced=key in until):
                    found.add(ListRow(name, part, key))
            had = base.execute("SELECT 1 FROM waiting LIMIT 1").fetchone()
            base.executemany("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?)", [(*key, time.time()) for key in found])
        self.version += bool(found) and not had

    def due(self, *, now: float | None = None, most: int = 200) -> list[ListRow]:
        """Return rows that may be read now: what was found of them is old enough to be in the part that is replaced."""
        if not (self.folder / _FILE).exists():
            return []
        before = (time.time() if now is None else now) - _DUE_AFTER
        with self._lock, self._open() as base:
            rows = base.execute("SELECT name, part, row FROM waiting WHERE found < ? ORDER BY found LIMIT ?", (before, most))
            return [ListRow(*row) for row in rows.fetchall()]

    def waiting(self) -> int:
        """Return how many rows wait."""
        if not (self.folder / _FILE).exists():
            return 0
        with self._lock, self._open() as base:
            return int(base.execute("SELECT COUNT(*) FROM waiting").fetchone()[0])

    def replacing(self, row: ListRow, until: int) -> None:
        """Note that a row's lists are replaced up to there (µs); before the event that does it is emitted."""
        with self._lock, self._open() as base:
            base.execute("INSERT OR REPLACE INTO replaced VALUES (?, ?, ?, ?)", (*row, until))

    def told_again(self, name: str, table: TableSchema, content: bytes, until: int) -> None:
        """Note which lists an event of a repeated snapshot replaces; before it is emitted."""
        event, lists = json.loads(content), frozenset(lists_of(table))
        keys = [
            _text(row["clustering"]) if row["kind"] == "row" else ""
            for row in event["rows"]
            if any("deletion" in cell and cell["column"] in lists for cell in row["cells"])
        ]
        if keys:
            rows = [(name, _text(event["partition"]), key, until) for key in keys]
            with self._lock, self._open() as base:
                base.executemany("INSERT OR REPLACE INTO replaced VALUES (?, ?, ?, ?)", rows)

    def landed(self, row: ListRow, found_before: float) -> None:
        """Note that the event has landed; what was found of the row since waits on."""
        with self._lock, self._open() as base:
            base.execute("DELETE FROM waiting WHERE name = ? AND part = ? AND row = ? AND found < ?", (*row, found_before))
            has = base.execute("SELECT 1 FROM waiting LIMIT 1").fetchone()
        self.version += not has

    def _open(self) -> sqlite3.Connection:
        if self._base is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(self.folder / _FILE, timeout=30, check_same_thread=False)
            self._base.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + _TABLES)
        return self._base


def _text(key: Mapping[str, object]) -> str:
    return json.dumps(key, ensure_ascii=False)


def _older(name: str, part: str, until: Mapping[str, int], deletion: Mapping[str, int]) -> set[ListRow]:
    """Rows that were replaced by elements that look younger than this deletion, and may not be."""
    return {ListRow(name, part, row) for row, limit in until.items() if deletion["written"] < limit}


def _says_old(row: Mapping[str, object], lists: frozenset[str], limit: int, *, was_replaced: bool) -> bool:
    deletion = row.get("deletion")
    if was_replaced and isinstance(deletion, dict) and deletion["written"] < limit:
        return True
    cells = row.get("cells", ())
    assert isinstance(cells, list | tuple)
    return any(_is_old(cell, limit) for cell in cells if cell["column"] in lists)


def _is_old(cell: Mapping[str, object], limit: int) -> bool:
    deletion = cell.get("deletion")
    if isinstance(deletion, dict):
        return bool(deletion["written"] < limit)
    written, path = cell["written"], cell["path"]
    return isinstance(written, int) and (written < limit or created(str(path)) < limit)
