"""Reads a row's lists again if a snapshot has emitted them and the log then shows something old of the same lists.

No SELECT returns the path of a list's element. So a snapshot invents paths, and deletes what the log may have of the same
elements. That fails once the log shows something of the list's old part: an element that came late, with an older write
time, or an old element that was set or removed. Then the row's lists are read again and replace everything older than the
reading. The work folder has the waiting rows; a row is added before its event lands.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

from cdc_views.model.schema import TableSchema
from cdc_views.model.types import ListOf

SETTLES_AFTER = 10.0
"""Seconds: a list's younger elements are left to the log, so that a write under way is not hidden."""
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
_ANY_WAITS = "SELECT 1 FROM waiting LIMIT 1"


class ListRow(NamedTuple):
    """A row, or a partition's static columns if `row` is empty; both key parts are JSON as in the log's events."""

    name: str
    part: str
    row: str


def lists_of(schema: TableSchema) -> tuple[str, ...]:
    """Return the table's columns that are multi-cell lists."""
    columns = (*schema.statics, *schema.regulars)
    return tuple(column.name for column in columns if column.type.is_multicell and isinstance(column.type, ListOf))


def created(path: str) -> int:
    """Return when an element was added (µs), by its path; setting the element later does not change it."""
    at = (UUID(path).time - _EPOCH) // 10
    return at if at >= _REFERENCE else 2 * _REFERENCE - at


@dataclass
class OldLists:
    """A record of when snapshots emitted lists, and of rows to read again; used by the threads of the log and the snapshot."""

    folder: Path
    version: int = 0
    _since: dict[str, int] = field(default_factory=dict)
    _base: sqlite3.Connection | None = None
    _lock: Lock = field(default_factory=Lock)

    def tell(self, name: str, since: int) -> None:
        """Note that a snapshot emits the table's lists up to `since` (µs); 0 if none does, because the log has everything."""
        if not self.is_known(name) or self._since[name] != since:
            with self._changing() as base:
                base.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (name, since))
            self._since[name] = since
            self.version += 1

    def is_known(self, name: str) -> bool:
        """Return whether `tell` has recorded the table."""
        if name not in self._since:
            self._since.update(self._asked("SELECT name, since FROM told"))
        return name in self._since

    def refresh(self) -> None:
        """Read what another process has recorded: a snapshot that runs alone."""
        before = dict(self._since)
        self._since.update(self._asked("SELECT name, since FROM told"))
        if self._since != before:
            self.version += 1

    def newest(self, name: str) -> int:
        """Return up to when (µs) a list of the table was emitted or replaced, 0 for never: younger events need no check.
        While rows wait, every event needs a check: a row that is replaced at the same time would hide late elements.
        """
        if not self.is_known(name) or not self._since[name]:
            return 0
        if self.is_waiting():
            return _EVERYTHING
        ((until,),) = self._asked("SELECT MAX(until) FROM replaced WHERE name = ?", name)
        return max(self._since[name], until or 0)

    def note(self, name: str, lists: Iterable[str], content: bytes) -> None:
        """Check an event of the log: rows for whose lists it has something old wait from now on."""
        event = json.loads(content)
        if "rows" not in event and "partition_deletion" not in event:
            return
        part, found = _text(event["partition"]), set[ListRow]()
        with self._changing() as base:
            rows = base.execute("SELECT row, until FROM replaced WHERE name = ? AND part = ?", (name, part)).fetchall()
            until = {str(row): int(limit) for row, limit in rows}
            if "partition_deletion" in event:
                found |= _older(name, part, until, event["partition_deletion"])
            for row in event.get("rows", ()):
                if row["kind"] == "range_deletion":
                    found |= _older(name, part, until, row["deletion"])
                    continue
                key = _row_key(row)
                if _says_old(row, frozenset(lists), until.get(key, self._since.get(name, 0)), was_replaced=key in until):
                    found.add(ListRow(name, part, key))
            had = base.execute(_ANY_WAITS).fetchone()
            base.executemany("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?)", [(*key, time.time()) for key in found])
        self.version += bool(found) and not had

    def due(self, *, now: float | None = None, most: int = 200) -> list[ListRow]:
        """Return rows to read now: their old elements have been known long enough to be in the part that is replaced."""
        before = (time.time() if now is None else now) - _DUE_AFTER
        rows = self._asked("SELECT name, part, row FROM waiting WHERE found < ? ORDER BY found LIMIT ?", before, most)
        return [ListRow(*row) for row in rows]

    def is_waiting(self) -> bool:
        """Return whether any row waits."""
        return bool(self._asked(_ANY_WAITS))

    def replacing(self, rows: Sequence[ListRow], until: int) -> None:
        """Note that rows' lists are replaced up to `until` (µs); call this before emitting the replacing event."""
        if rows:
            with self._changing() as base:
                base.executemany("INSERT OR REPLACE INTO replaced VALUES (?, ?, ?, ?)", [(*row, until) for row in rows])

    def told_again(self, name: str, table: TableSchema, content: bytes, until: int) -> None:
        """Note which lists an event of a repeated snapshot replaces; call this before emitting it."""
        event, lists = json.loads(content), frozenset(lists_of(table))
        replaced = [
            ListRow(name, _text(event["partition"]), _row_key(row))
            for row in event["rows"]
            if any("deletion" in cell and cell["column"] in lists for cell in row["cells"])
        ]
        self.replacing(replaced, until)

    def landed(self, row: ListRow, found_before: float) -> None:
        """Note that the event has landed; a row with newer findings keeps waiting."""
        with self._changing() as base:
            base.execute("DELETE FROM waiting WHERE name = ? AND part = ? AND row = ? AND found < ?", (*row, found_before))
            has = base.execute(_ANY_WAITS).fetchone()
        self.version += not has

    def _asked(self, text: str, *values: object) -> list[Any]:
        if not (self.folder / _FILE).exists():
            return []
        with self._changing() as base:
            return base.execute(text, values).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction, in one thread at a time."""
        with self._lock:
            if self._base is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._base = sqlite3.connect(self.folder / _FILE, timeout=30, check_same_thread=False)
                self._base.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + _TABLES)
            with self._base:
                yield self._base


def _text(key: Mapping[str, object]) -> str:
    return json.dumps(key, ensure_ascii=False)


def _row_key(row: Mapping[str, Any]) -> str:
    return _text(row["clustering"]) if row["kind"] == "row" else ""


def _older(name: str, part: str, until: Mapping[str, int], deletion: Mapping[str, int]) -> set[ListRow]:
    """Return replaced rows whose elements look younger than this deletion, but may be older."""
    return {ListRow(name, part, row) for row, limit in until.items() if deletion["written"] < limit}


def _says_old(row: Mapping[str, Any], lists: frozenset[str], limit: int, *, was_replaced: bool) -> bool:
    deletion = row.get("deletion")
    if was_replaced and deletion and deletion["written"] < limit:
        return True
    return any(_is_old(cell, limit) for cell in row.get("cells", ()) if cell["column"] in lists)


def _is_old(cell: Mapping[str, Any], limit: int) -> bool:
    at: int = cell.get("deletion", cell)["written"]
    return at < limit or ("deletion" not in cell and created(cell["path"]) < limit)
