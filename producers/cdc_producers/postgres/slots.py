"""Replication slots: creates, finds and watches them; explains a lost one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from cdc_producers.log_watcher import EVERY, LogWatcher
from cdc_producers.postgres.connections import LOG_END, connect, identifier, lsn_number, rows
from cdc_producers.postgres.options import PGOUTPUT
from cdc_producers.source import LostError
from cdc_views.errors import CdcViewsError, TransientError, UsageError
from cdc_views.landing.targets import ProducerLog

_NEAR_BYTES = 256 << 20
_WARN_AGAIN_AFTER = 60
"""Looks between two warnings: five minutes."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot: its position (`confirmed`), the log that the server keeps for it (`held_bytes`) and the log's end (`written`).

    `safe_bytes` is how much more log may come before the slot is lost (`max_slot_wal_keep_size`); None: no limit.
    `fails_over`: standbys keep a copy of it.
    """

    confirmed: int
    held_bytes: int
    written: int
    is_lost: bool
    safe_bytes: int | None
    active_process: int | None
    fails_over: bool = False


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """A snapshot of the database at `lsn`: it shows earlier commits, and the slot streams the commits from there on."""

    name: str
    lsn: int


class StandbyError(UsageError):
    """The server is a standby; after a failover it may soon be the primary."""


_SLOT = f"""
SELECT plugin, slot_type, database = current_database(), confirmed_flush_lsn::text, wal_status, safe_wal_size, active_pid,
       coalesce(pg_wal_lsn_diff({LOG_END}, restart_lsn), 0)::bigint,
       pg_wal_lsn_diff({LOG_END}, '0/0')::bigint, coalesce((to_jsonb(slots)->>'failover')::boolean, false)
FROM pg_replication_slots AS slots WHERE slot_name = %s"""
"""Before PostgreSQL 17 the view has no column `failover`."""
_FAILS_OVER_FROM = 170_000
_DECODES_ON_STANDBYS_FROM = 160_000


def find_slot(connection: Any, name: str, *, plugin: str = PGOUTPUT) -> Slot | None:
    """Return the slot, or None; raises `UsageError` for a slot of another plug-in, kind or database."""
    found = rows(connection, _SLOT, (name,), doing="looking for the slot")
    if not found:
        return None
    its_own, kind, is_here, confirmed, status, safe, process, held, written, fails_over = found[0]
    if (its_own, kind, is_here) != (plugin, "logical", True):
        raise UsageError(
            f"slot {name} is of plugin {its_own or kind} or of another database, where {plugin} on this one was expected; "
            "name another with --slot, or its plug-in with --plugin"
        )
    is_lost = status == "lost" or confirmed is None
    limit = None if safe is None else int(safe)
    return Slot(lsn_number(confirmed or "0/0"), int(held), int(written), is_lost, limit, process, fails_over)


def check_alive(slot: Slot, name: str) -> None:
    """Raise `LostError` if the slot is lost, and `TransientError` if another process reads it."""
    if slot.is_lost:
        raise LostError(
            f"slot {name} is lost: the server removed log that it still needed, because this producer was away for more than "
            "max_slot_wal_keep_size, or a standby rows that it needed; changes are missing. Raise that limit (a standby: set "
            "hot_standby_feedback), start once with --drop slot, then once with --snapshot-again"
        )
    if slot.active_process is not None:
        raise TransientError(f"slot {name} is read by process {slot.active_process} of the server; is another producer running?")


def check_logical(connection: Any, *, fails_over: bool = False, may_be_standby: bool = False) -> None:
    """Refuse a server that is too old (also for slots that fail over, or on a standby), is a standby though it may not be one,
    or does not write a logical log.
    """
    asked = "SELECT current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery()"
    ((version, level, is_standby),) = rows(connection, asked, doing="asking its version")
    if version < 140_000:
        raise UsageError(f"PostgreSQL {version // 10_000} is too old; 14 or newer was expected")
    if fails_over and version < _FAILS_OVER_FROM:
        raise UsageError(f"--slot-failover: PostgreSQL {version // 10_000} has no such slots; 17 or newer was expected")
    if level != "logical":
        raise UsageError(f"wal_level is {level}; set wal_level = logical in postgresql.conf and restart the server")
    if is_standby and not may_be_standby:
        raise StandbyError(
            "the server is a standby (recovery is in progress), and changes are read from a primary; name that in PGHOST, or all "
            "servers with PGTARGETSESSIONATTRS=primary, or read from the standby with --server standby"
        )
    if is_standby and version < _DECODES_ON_STANDBYS_FROM:
        raise UsageError(f"--server standby: PostgreSQL {version // 10_000} decodes on primaries alone; 16 or newer was expected")


@contextmanager
def exported_snapshot(
    slot: str, *, plugin: str = PGOUTPUT, is_temporary: bool, fails_over: bool = False
) -> Iterator[ExportedSnapshot]:
    """Create a slot and hold the snapshot that it begins with; a temporary slot is dropped afterwards, and never fails over.

    Creating a slot waits for all running transactions: none of them can be half in the snapshot.
    """
    with closing(connect(is_replication=True)) as connection:
        kind = "TEMPORARY LOGICAL" if is_temporary else "LOGICAL"
        # before PostgreSQL 15, only this form; from 17 on, only the other one says FAILOVER
        how = "(SNAPSHOT 'export', FAILOVER true)" if fails_over and not is_temporary else "EXPORT_SNAPSHOT"
        text = f"CREATE_REPLICATION_SLOT {identifier(slot)} {kind} {plugin} {how}"
        ((_, lsn, name, _),) = rows(connection, text, doing=f"creating slot {slot}")
        yield ExportedSnapshot(name, lsn_number(lsn))


def fail_over(slot: str) -> None:
    """Have standbys keep a copy of a slot, which nobody may read now."""
    with closing(connect(is_replication=True)) as connection:
        text = f"ALTER_REPLICATION_SLOT {identifier(slot)} (FAILOVER true)"
        rows(connection, text, doing=f"changing slot {slot}")


@dataclass
class SlotWatcher(LogWatcher):
    """Keeps the last look at a slot, with None before it; `saw_change` is set once `has_changed` returned true.

    The server may keep `held_bytes_warning` of log without a warning.
    """

    slot: str
    log: ProducerLog
    held_bytes_warning: int = 1 << 30
    plugin: str = PGOUTPUT
    has_changed: Callable[[Any], bool] = lambda _: False
    done_to: Callable[[], int] = lambda: 0
    saw_change: Event = field(default_factory=Event)
    echo_seconds: float | None = None
    behind_bytes: int | None = None
    held_bytes: int | None = None
    held_limit_bytes: int | None = None
    _quiet_looks: int = 0

    def is_over(self) -> bool:
        return self._stop.is_set() or self.saw_change.is_set()

    def look_until_stopped(self) -> None:
        looked = -EVERY
        with closing(connect()) as connection:
            while not self._stop.is_set():
                self._echo(connection)
                if time.monotonic() - looked >= EVERY:
                    looked = time.monotonic()
                    slot = find_slot(connection, self.slot, plugin=self.plugin)
                    if slot is not None:
                        self.look(slot)
                    if self.has_changed(connection):
                        self.saw_change.set()
                        return
                self._stop.wait(min(self.echo_seconds or EVERY, EVERY))

    def _echo(self, connection: Any) -> None:
        """Write the time into the log; the stream reads it, so the lag includes the whole way."""
        if self.echo_seconds is None:
            return
        text = "SELECT pg_logical_emit_message(false, %s, %s)"
        try:
            rows(connection, text, (self.slot, f"{time.time():.3f}"), doing="writing an echo")
        except TransientError:
            raise
        except CdcViewsError as error:
            self.echo_seconds = None
            self.log.warning(f"--echo does not work here: {error}; going on without")

    def look(self, slot: Slot) -> None:
        """Record a look at a slot; warn if the log kept for it exceeds `held_bytes_warning` or is near the slot's limit."""
        self.behind_bytes = max(0, slot.written - max(slot.confirmed, self.done_to()))
        self.held_bytes = slot.held_bytes
        self.held_limit_bytes = None if slot.safe_bytes is None else slot.held_bytes + slot.safe_bytes
        rest = "; it goes once this producer has landed it and transactions that run are over"
        if slot.safe_bytes is not None and slot.safe_bytes < _NEAR_BYTES:
            near = f"{max(0, slot.safe_bytes) >> 20:,} MiB on (max_slot_wal_keep_size)"
            rest = f", and loses the slot {near}; raise that limit or land faster"
        elif slot.held_bytes < self.held_bytes_warning:
            self._quiet_looks = 0
            return
        if self._quiet_looks == 0:
            held = f"the server keeps {slot.held_bytes >> 20:,} MiB of log for slot {self.slot}"
            self.log.warning(held + rest, slot=self.slot, held_bytes=slot.held_bytes)
        self._quiet_looks = (self._quiet_looks + 1) % _WARN_AGAIN_AFTER
