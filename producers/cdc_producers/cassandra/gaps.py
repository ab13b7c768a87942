"""Finds times in which CDC or `durable_writes` was off for a table, so that no log has its writes.

The work folder remembers each table's settings and when the node wrote them. When they change, the snapshot is due again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from cdc_producers.cassandra.node_schema import Logged, NodeSchema, NodeTable
from cdc_producers.cassandra.remembered import recall, remember
from cdc_producers.metrics import Health
from cdc_views.landing.raw_table import another_raw
from cdc_views.landing.targets import ProducerLog

_FILE = "logged.json"
_CLOSE = 5.0
"""Seconds between two checks of the schema; if fewer have passed, a change is taken to be a single ALTER."""


@dataclass(slots=True)
class _Known:
    """What is remembered of a table; a new `table_id` means a new table.

    Attributes:
        logged: The settings when last seen.
        retake: Name of the snapshot that is due or was taken last; empty for the first one.
        is_due: Whether that snapshot is not whole yet; `why` explains it.
        lacks_from: The log may lack writes from here on (µs); it has all earlier ones.
        is_sure: Whether the log surely lacks writes, since the setting was seen off; else there was an ALTER of unknown content.
    """

    table_id: str
    logged: Logged
    retake: str = ""
    is_due: bool = False
    why: str = ""
    lacks_from: int = 0
    is_sure: bool = False

    def may_lack(self, since: int, *, is_sure: bool) -> None:
        """Note that the log may lack writes from `since` on (µs); a gap that no snapshot has filled continues."""
        if not self.is_due:
            self.lacks_from, self.is_sure = since, False
        self.is_sure |= is_sure


@dataclass
class Gaps:
    """The tables whose log may have gaps; used by the threads of the log and the snapshot.

    Attributes:
        folder: The work folder.
        takes_snapshots: Whether this agent takes the snapshot itself; else the message explains how to take it.
        aside: Tables that are set aside, so their snapshots wait.
        anew: Advises how to land a table in another place.
        names: The project's tables; None: all that are remembered.
    """

    folder: Path
    log: ProducerLog
    health: Health
    takes_snapshots: bool = True
    names: Collection[str] | None = None
    aside: frozenset[str] = frozenset()
    anew: Callable[[str], str] = another_raw
    _known: dict[str, _Known] = field(default_factory=dict)
    _off: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._known = recall(self.folder / _FILE, dict[str, _Known]) or {}
        for name, known in self._known.items():
            if known.is_due and (self.names is None or name in self.names):
                self.health.set(_part(name), known.why)

    def look(self, schema: NodeSchema, names: Iterable[str], *, unseen: float) -> None:
        """Compare tables with what is remembered; `unseen`: seconds since this agent's last check, infinite at its start.
        An ALTER writes all settings again. If the last check was recent, an ALTER that wrote columns is taken to be only that.
        In any other case CDC may have been off in between, so the snapshot is due.
        """
        with self._lock:
            before = deepcopy(self._known)
            for name in names:
                table = schema.table(name)
                if table is not None and table.logged is not None:
                    self._look(name, table, table.logged, unseen)
            if self._known != before:
                self._write()

    def _look(self, name: str, table: NodeTable, now: Logged, unseen: float) -> None:
        known, is_close = self._known.get(name), unseen < _CLOSE
        if known is None or known.table_id != str(table.id):
            self._known[name] = known = _Known(str(table.id), now)
            self.health.set(_part(name), "")
        # after a longer pause, the log is known to be complete only up to when the last settings seen were written
        seen = time.time_ns() // 1000 - int(unseen * 1e6) if is_close else max(known.logged.cdc_at, known.logged.durable_at)
        if not table.is_logged:
            known.may_lack((now.durable_at if table.has_cdc else now.cdc_at) if is_close else seen, is_sure=True)
            self._tell_off(name, known, table)
            return
        was_off = self._off.pop(name, None) is not None
        if was_off or self._may_be_gap(known.logged, now, is_close=is_close):
            if not was_off:
                known.may_lack(seen, is_sure=False)
            self._due(name, known, now)
        known.logged = now

    @staticmethod
    def _may_be_gap(before: Logged, now: Logged, *, is_close: bool) -> bool:
        if now.durable_at != before.durable_at and not is_close and now.durable_at != now.newest_at:
            return True
        is_of_columns = now.altered_at != before.altered_at and now.altered_at == now.cdc_at
        return now.cdc_at != before.cdc_at and not (is_close and is_of_columns)

    def _tell_off(self, name: str, known: _Known, table: NodeTable) -> None:
        setting, remedy = "cdc", f"ALTER TABLE {table.place} WITH cdc = true"
        if table.has_cdc:
            setting, remedy = "durable_writes", f"ALTER KEYSPACE {table.keyspace} WITH durable_writes = true"
        message = (
            f"{name} has {setting} = false: what is written to it now is in no commit log, and is missing here. {remedy}; "
            "then its snapshot is taken again"
        )
        if self._off.get(name) != message:
            self.log.warning(message, table=name)
        self._off[name] = message
        known.is_due, known.why = True, message
        self.health.set(_part(name), message)

    def _due(self, name: str, known: _Known, now: Logged) -> None:
        known.retake = f"again-{max(now.cdc_at, now.durable_at)}"
        by = "Run this once with --snapshot only and the same --work-folder"
        if self.takes_snapshots:
            by = "Its snapshot is taken again"
        known.is_due = True
        known.why = (
            f"{name} was altered, and CDC or durable_writes may have been off: what was written then is in no commit log. "
            f"{by}. What was deleted meanwhile no snapshot tells, so views keep it; where that matters, stop the agent, "
            f"{self.anew(name)}, and start the agent again"
        )
        self.log.warning(known.why, table=name)
        self.health.set(_part(name), known.why)

    def retake(self, name: str) -> str:
        """Return the name of the table's snapshot; empty for the first one."""
        return self._known[name].retake if name in self._known else ""

    def lacks_from(self, name: str) -> int | None:
        """Return from when on (µs) the log may lack writes that a repeated snapshot brings; None for the first snapshot."""
        return self._known[name].lacks_from if self.retake(name) else None

    def is_sure(self, name: str) -> bool:
        """Return whether the log surely lacks something that the snapshot brings; False if settings were only written again."""
        return not self.retake(name) or self._known[name].is_sure

    def holds_back(self, name: str) -> bool:
        """Return whether a table's snapshot waits: the table is set aside, or no log has its writes at present."""
        return name in self.aside or name in self._off

    def taken(self, name: str) -> None:
        """Note that the whole snapshot that was due has landed."""
        with self._lock:
            known = self._known.get(name)
            if known is None or not known.is_due or name in self._off:
                return
            known.is_due, known.why = False, ""
            self._write()
        self.health.set(_part(name), "")
        self.log.info(f"{name}: the snapshot has landed, and the log is followed again", table=name)

    def due(self) -> list[str]:
        """Return the tables whose snapshot is due again."""
        return [name for name, known in list(self._known.items()) if known.is_due and name not in self._off]

    def _write(self) -> None:
        remember(self.folder / _FILE, self._known)


def _part(name: str) -> str:
    return f"log of {name}"
