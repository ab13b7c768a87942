"""Whether the log had all of a table all the time: CDC and `durable_writes` may be switched off, and on again.

What was written meanwhile is in no commit log. So each table's settings, and when the node wrote them, are remembered
in the work folder; where they moved, the table's snapshot is due again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
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
"""Seconds between two looks at the schema within which one ALTER is taken for one."""


@dataclass(slots=True)
class _Known:
    """What is remembered of a table.

    Attributes:
        table_id: Another id, another table.
        logged: As it was last seen; see `Logged`.
        retake: What the snapshot that is due, or was taken last, is called; empty: the first one.
        is_due: Whether that one is not whole yet.
        why: Why it is due.
        lacks_from: The log may lack what was written from here on (µs); what is before, it has.
        is_sure: Whether the log does lack something: it was seen off. Else an ALTER came that may have been of anything.
    """

    table_id: str
    logged: Logged
    retake: str = ""
    is_due: bool = False
    why: str = ""
    lacks_from: int = 0
    is_sure: bool = False

    def may_lack(self, since: int, *, is_sure: bool) -> None:
        """Note that the log may lack what was written from there on (µs); a gap that no snapshot has filled goes on."""
        if not self.is_due:
            self.lacks_from, self.is_sure = since, False
        self.is_sure |= is_sure


@dataclass
class Gaps:
    """Finds tables that the log did not have all the time; asked by the log's thread and the snapshot's.

    Attributes:
        folder: The work folder.
        takes_snapshots: Whether this agent takes the snapshot itself; else the message says how.
        aside: Tables that are set aside: their snapshot waits.
    """

    folder: Path
    log: ProducerLog
    health: Health
    takes_snapshots: bool = True
    aside: frozenset[str] = frozenset()
    _known: dict[str, _Known] = field(default_factory=dict)
    _off: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._known = recall(self.folder / _FILE, dict[str, _Known]) or {}
        for name, known in self._known.items():
            if known.is_due:
                self.health.set(_part(name), known.why)

    def look(self, schema: NodeSchema, names: Iterable[str], *, unseen: float) -> None:
        """Compare tables with what is remembered; `unseen`: seconds since this agent looked last, infinite at its start.

        An ALTER writes all settings anew. While looks are close, one that came with columns is taken for what it looks
        like; in any other case nobody can tell whether CDC was off in between, and the snapshot is due.
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
        # nobody knows what was altered while nobody looked: then it was logged when its settings were written, no longer
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
            f"{by}. What was deleted meanwhile no snapshot tells, so views keep it; where that matters, {another_raw(name)}"
        )
        self.log.warning(known.why, table=name)
        self.health.set(_part(name), known.why)

    def retake(self, name: str) -> str:
        """Return what the table's snapshot is called; empty: the first one."""
        return self._known[name].retake if name in self._known else ""

    def lacks_from(self, name: str) -> int | None:
        """Return from when on (µs) the log may lack something of a table whose snapshot is taken again; None: it is the first."""
        return self._known[name].lacks_from if self.retake(name) else None

    def is_sure(self, name: str) -> bool:
        """Whether the log lacks something that the snapshot has to bring: not where settings were only written anew."""
        return not self.retake(name) or self._known[name].is_sure

    def holds_back(self, name: str) -> bool:
        """Whether a snapshot of the table waits: it is set aside, or what is written to it now is in no log."""
        return name in self.aside or name in self._off

    def taken(self, name: str) -> None:
        """Note that the snapshot that was due has landed, all of it."""
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
