"""Keeps the events of tables that are set aside on disk until somebody has corrected the tables.

The other tables go on, and segments are released as usual: a table that cannot land must not fill `cdc_raw`.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cdc_producers.metrics import Health
from cdc_producers.source import Emit, Emitted
from cdc_views.errors import EngineError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_FOLDER = "waiting"
_BEGIN, _END = Position(-1), Position(1 << 63)
"""Before and after every position."""


@dataclass
class _Known:
    """Positions in a file of kept events; they are asked for in ascending order, as a reader that starts again emits them."""

    positions: Iterator[Position]
    reached: Position = _BEGIN
    asked: Position = _BEGIN

    def has(self, position: Position) -> bool:
        """Return whether the file has an event of this position, or the last question was the same."""
        is_repeated, self.asked = position == self.asked, position
        while self.reached < position:
            self.reached = next(self.positions, _END)
        return is_repeated or self.reached == position


@dataclass
class KeptEvents:
    """The events of tables that are set aside; they are emitted once the table is well.

    Attributes:
        folder: The work folder; its folder `waiting` has a file of events per table.
        troubles: What is wrong, by table; these tables land nothing.
    """

    folder: Path
    targets: Mapping[str, StreamTarget]
    log: ProducerLog
    health: Health
    troubles: dict[str, str] = field(default_factory=dict)
    _files: dict[str, IO[str]] = field(default_factory=dict)
    _known: dict[str, _Known] = field(default_factory=dict)
    _returning: dict[str, Emitted] = field(default_factory=dict)

    def set(self, troubles: Mapping[str, str], emit: Emit | None) -> None:
        """Set what is wrong now. A table that is well again first gets its kept events, at the next call with `emit`."""
        for name in self.targets:
            trouble, before = troubles.get(name, ""), self.troubles.get(name, "")
            if trouble and trouble != before:
                self.log.warning(
                    f"{trouble}. {name} is set aside until then: its events are kept in {self._path(name)}, other tables go on",
                    table=name,
                )
            if before and not trouble:
                self.log.info(f"{name} is well again, and lands what was kept", table=name)
            self.health.set(f"table {name}", trouble)
        self.troubles = dict(troubles)
        if emit is not None:
            self.give_back(emit)

    def keep(self, item: Emitted) -> None:
        """Keep an event unless it is a repeated one; it is surely on disk once `sync` has returned."""
        if not isinstance(item.content, bytes):
            return  # this item only records progress, and the table makes none
        known = self._known.get(item.table)
        if known is None or item.position < known.asked:
            self.sync()
            known = self._known[item.table] = _Known(found.position for found in self._kept(item.table))
        # not by the last position: events emitted before the table was set aside, and cut off by a kill, are older than kept ones
        if known.has(item.position):
            return
        if item.table not in self._files:
            self._files[item.table] = self._opened(self._path(item.table))
        content = self.targets[item.table].format.kept(item.content)
        fields = [item.stream, *item.position, item.happened, base64.b64encode(content).decode()]
        self._files[item.table].write(json.dumps(fields) + "\n")

    def _opened(self, path: Path) -> IO[str]:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)  # cut off a last line that a kill left incomplete
        return path.open("a", encoding="ascii")

    def sync(self) -> None:
        """Make kept events survive a power cut; then their segments may be removed."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())

    def give_back(self, emit: Emit) -> None:
        """Emit the kept events of tables that are well, oldest first; they stay on disk until they have landed."""
        for name in self.targets:
            if name in self.troubles or name in self._returning or not self._path(name).exists():
                continue
            if name in self._files:
                self._files.pop(name).close()
            self._known.pop(name, None)
            last = None
            for item in self._kept(name):
                emit(item)
                last = item
            if last is not None:
                self._returning[name] = last

    def forget_landed(self) -> None:
        """Remove kept events that have landed."""
        for name, last in list(self._returning.items()):
            try:
                landed = self.targets[name].lander(last.stream).position()
            except EngineError:
                continue  # the target is away
            if landed is not None and landed >= last.position:
                del self._returning[name]
                if name not in self.troubles:
                    self._path(name).unlink(missing_ok=True)

    def _kept(self, name: str) -> Iterator[Emitted]:
        """Yield the kept events by position. Each start of an agent appends them in ascending order, so its runs are merged."""
        path = self._path(name)
        if not path.exists():
            return iter(())
        begins, end, last = [0], 0, _BEGIN
        for item, after in _lines(path, name, 0):
            if item.position < last:
                begins.append(end)
            end, last = after, item.position
        runs = (_run(path, name, begin, until) for begin, until in zip(begins, [*begins[1:], end], strict=True))
        return heapq.merge(*runs, key=lambda item: item.position)

    def _path(self, name: str) -> Path:
        plain = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        return self.folder / _FOLDER / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.jsonl"

    def close(self) -> None:
        """Close the files."""
        self.sync()
        for file in self._files.values():
            file.close()
        self._files.clear()


def _lines(path: Path, name: str, begin: int) -> Iterator[tuple[Emitted, int]]:
    """Yield the events of a file from a byte on, each with the byte after it."""
    with path.open("rb") as lines:
        lines.seek(begin)
        for line in lines:
            if not line.endswith(b"\n"):
                return  # a kill cut this line; its segment still exists and is read again
            begin += len(line)
            stream, at, nth, happened, content = json.loads(line)
            yield Emitted(name, stream, Position(at, nth), base64.b64decode(content), happened), begin


def _run(path: Path, name: str, begin: int, end: int) -> Iterator[Emitted]:
    if begin < end:
        for item, after in _lines(path, name, begin):
            yield item
            if after >= end:
                return
