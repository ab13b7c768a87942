"""Replication slots: made, found, watched; what a lost one means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cdc_producers.postgres.connections import connect, identifier, lsn_number, postgres_errors, rows
from cdc_producers.source import LostError
from cdc_views.errors import TransientError, UsageError


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as the server has it; `confirmed` is where it goes on, `held_bytes` the log kept for it, `written` its end.

    `safe_bytes` is how much more log may come before the slot is lost (`max_slot_wal_keep_size`), None: no limit.
    """

    confirmed: int
    held_bytes: int
    written: int
    is_lost: bool
    safe_bytes: int | None
    active_process: int | None


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """A snapshot of the database at `lsn`: it shows what committed before, and the slot streams what commits from there."""

    name: str
    lsn: int


class StandbyError(UsageError):
    """The server is a standby; after a failover it may be none for long."""


_SLOT = """
SELECT plugin, slot_type, database = current_database(), confirmed_flush_lsn::text, wal_status, safe_wal_size, active_pid,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint
FROM pg_replication_slots WHERE slot_name = %s"""


def find_slot(connection: Any, name: str) -> Slot | None:
    """Return the slot, None where there is none; raises `UsageError` for one of another kind or database."""
    found = rows(connection, _SLOT, (name,), doing="looking for the slot")
    if not found:
        return None
    plugin, kind, is_here, confirmed, status, safe, process, held, written = found[0]
    if (plugin, kind, is_here) != ("pgoutput", "logical", True):
        raise UsageError(
            f"slot {name} is of plugin {plugin or kind} or of another database, where pgoutput on this one was expected; "
            "name another with --slot"
        )
    is_lost = status == "lost" or confirmed is None
    return Slot(lsn_number(confirmed or "0/0"), int(held), int(written), is_lost, None if safe is None else int(safe), process)


def check_alive(slot: Slot, name: str) -> None:
    """Raise where the slot is lost, or another process reads it."""
    if slot.is_lost:
        raise LostError(
            f"slot {name} is lost: the server removed log that it still needed, because this producer was away for more than "
            "max_slot_wal_keep_size; changes are missing. Raise that limit, drop the slot (SELECT pg_drop_replication_slot"
            f"('{name}')) and start with --snapshot-again"
        )
    if slot.active_process is not None:
        raise TransientError(f"slot {name} is read by process {slot.active_process} of the server; is another producer running?")


def check_logical(connection: Any) -> None:
    """Refuse a server that is too old, or that writes no logical log."""
    asked = "SELECT current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery()"
    ((version, level, is_standby),) = rows(connection, asked, doing="asking its version")
    if version < 140_000:
        raise UsageError(f"PostgreSQL {version // 10_000} is too old; 14 or newer was expected")
    if level != "logical":
        raise UsageError(f"wal_level is {level}; set wal_level = logical in postgresql.conf and restart the server")
    if is_standby:
        raise StandbyError(
            "the server is a standby (recovery is in progress), and changes are read from a primary; name that in PGHOST, or all "
            "servers with PGTARGETSESSIONATTRS=primary"
        )


@contextmanager
def exported_snapshot(slot: str, *, is_temporary: bool) -> Iterator[ExportedSnapshot]:
    """Create a slot and hold the snapshot it begins with; a temporary slot is gone afterwards.

    Creating one waits for every transaction that runs now: none of them can be half in the snapshot.
    """
    connection = connect(is_replication=True)
    try:
        kind = "TEMPORARY LOGICAL" if is_temporary else "LOGICAL"
        text = f"CREATE_REPLICATION_SLOT {identifier(slot)} {kind} pgoutput EXPORT_SNAPSHOT"
        ((_, lsn, name, _),) = rows(connection, text, doing=f"creating slot {slot}")
        yield ExportedSnapshot(name, lsn_number(lsn))
    finally:
        with postgres_errors("closing"):
            connection.close()
