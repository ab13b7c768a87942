"""Keeps the events of tables that are set aside on disk until somebody has corrected the tables.

The other tables go on, and segments are released as usual: a table that cannot land must not fill `cdc_raw`.
"""

from __future__ import annotations

import base64
import hashlib
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
    _last: dict[str, Position] = field(default_factory=dict)
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
        if item.table not in self._last:
            self._last[item.table] = max((found.position for found in self._kept(item.table)), default=Position(-1))
        if item.position <= self._last[item.table]:
            return
        if item.table not in self._files:
            self._files[item.table] = self._opened(self._path(item.table))
        fields = [item.stream, *item.position, item.happened, base64.b64encode(item.content).decode()]
        self._files[item.table].write(json.dumps(fields) + "\n")
        self._last[item.table] = item.position

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
            self._last.pop(name, None)
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
        path = self._path(name)
        if not path.exists():
            return
        with path.open(encoding="ascii") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    return  # a kill cut this line; its segment still exists and is read again
                stream, at, nth, happened, content = json.loads(line)
                yield Emitted(name, stream, Position(at, nth), base64.b64decode(content), happened)

    def _path(self, name: str) -> Path:
        plain = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        return self.folder / _FOLDER / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.jsonl"

    def close(self) -> None:
        """Close the files."""
        self.sync()
        for file in self._files.values():
            file.close()
        self._files.clear()
