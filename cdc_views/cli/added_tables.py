"""A producer's run, and its next run with tables that were added to the project file meanwhile.

A producer begins where it stopped, and reads a snapshot of a table that has none. So a table is added by ending the run, as a
signal would, and beginning another one in the same process: nothing is lost, and no other table is read anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from cdc_views.errors import CdcViewsError, EngineError, UsageError

if TYPE_CHECKING:
    from cdc_views.landing.targets import ProducerLog, ProducerOrder

_LOOK_EVERY = 0.2
_AGAIN_AFTER = 2.0
"""Seconds until a project file that is wrong is read again, though it did not change: a schema file may have."""
_BEGINS_WITHIN = 120.0
"""Seconds in which a run with added tables shows that these cannot be followed; a later failure has another cause."""


@dataclass(frozen=True)
class Refused:
    """Tables that cannot be followed, as long as the project file is as it was."""

    names: frozenset[str] = frozenset()
    stamp: object = None


@dataclass
class AddedTables:
    """Looks into the project file for tables that a run began without; `names` tells all that the producer would take."""

    file: Path
    known: set[str]
    refused: Refused
    log: ProducerLog
    names: Callable[[], Sequence[str]]
    found: list[str] = field(default_factory=list)
    _stamp: object = None
    _told: str = ""
    _next: float = 0.0

    @contextmanager
    def watching(self, stop: Event, *, ends: bool) -> Iterator[Event]:
        """Yield an event that is set once `stop` is, or, if it `ends` then, once a table was added; else only tell of it."""
        until, over = Event(), Event()

        def look() -> None:
            while not over.wait(_LOOK_EVERY) and not stop.is_set():
                if self._looks() and ends:
                    break
                self._tell()
            until.set()

        watcher = Thread(target=look, name="added tables", daemon=True)
        watcher.start()
        try:
            yield until
        finally:
            over.set()
            watcher.join()

    def _tell(self) -> None:
        if self.found:
            self.known |= set(self.found)
            self.log.warning(f"{', '.join(self.found)}: added to {self.file}; the next start of this producer begins with it")
            self.found = []

    def _looks(self) -> bool:
        """Return whether tables were added; the first look is at what changed before the run began."""
        now = stamp_of(self.file)
        if now == self._stamp or time.monotonic() < self._next:
            return False
        try:
            known = self.known | (self.refused.names if now == self.refused.stamp else set())
            self.found = [name for name in self.names() if name not in known]
            self._stamp = now
        except CdcViewsError as error:
            # a file that is half written, or whose schema file comes later
            self._next = time.monotonic() + _AGAIN_AFTER
            if str(error) != self._told:
                self._told = str(error)
                self.log.warning(f"{error}; no table is added until that is mended")
        return bool(self.found)


@dataclass
class FollowedTables:
    """Runs a producer until it is stopped.

    Attributes:
        order_of: Returns the order for tables of these names; none: for all that the producer takes.
        produce: Runs the producer until the order's `stop`.
        takes: Whether added tables begin at once; otherwise the log says that they wait for the next start.
    """

    file: Path
    order_of: Callable[[Sequence[str]], ProducerOrder]
    names: Callable[[], Sequence[str]]
    produce: Callable[[ProducerOrder], None]
    log: ProducerLog
    takes: bool = True

    def run(self, order: ProducerOrder, stop: Event) -> None:
        """Run with the order's tables, then with those that were added; raises what the producer raises."""
        added, refused = list[str](), Refused()
        while True:
            known, stamp, begun = {target.name for target in order.targets}, stamp_of(self.file), time.monotonic()
            watch = AddedTables(self.file, set(known), refused, self.log, self.names)
            try:
                with watch.watching(stop, ends=self.takes) as until:
                    self.produce(replace(order, stop=until))
            except (UsageError, EngineError) as error:
                if not added or stop.is_set() or time.monotonic() - begun > _BEGINS_WITHIN:
                    raise
                listed = ", ".join(added)
                self.log.warning(
                    f"{listed}: cannot be added: {error}; the other tables go on. Once that is mended, save {self.file}"
                )
                refused = Refused(frozenset(added), stamp)
                order, added = self._next_order(sorted(known - set(added))), []
                continue
            if stop.is_set() or not watch.found:
                return
            added = watch.found
            self.log.info(f"{', '.join(added)}: added to {self.file}; the producer goes on with it", tables=added)
            order = self._next_order(())

    def _next_order(self, names: Sequence[str]) -> ProducerOrder:
        """Return the order of a later run: its source answered the one before, so an outage now is waited out."""
        return replace(self.order_of(names), connect_seconds=0.0)


def stamp_of(path: Path) -> tuple[int, int]:
    """Return what changes with a file."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
