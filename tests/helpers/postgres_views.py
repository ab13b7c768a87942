"""Comparing what a project's views show with what PostgreSQL itself answers."""

from __future__ import annotations

from services.postgres import Postgres

from helpers.command_line import CommandLine
from helpers.comparing import only_one_has, raw_location, twice
from helpers.postgres_tables import TABLES, canonical, source_rows
from helpers.producing import eventually

__all__ = ["SLOT", "differences", "landed_twice", "raw_location", "wait_until_landed"]
SLOT = "cdc_views_shop"


def wait_until_landed(server: Postgres, *, slot_on: Postgres | None = None, within: float = 40) -> None:
    """Until the slot, on another server if that is given, is confirmed up to what the server has written by now."""
    ((end,),) = server.sql("SELECT pg_current_wal_lsn()::text")
    text = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    reads = slot_on or server
    eventually(lambda: reads.sql(text, (end, SLOT)) == [(True,)], within=within, what=f"slot {SLOT} at {end}")


def differences(server: Postgres, run: CommandLine, *tables: str) -> list[str]:
    """The rows that only one of source and view has; empty where they are equal."""
    found = []
    for table in tables or TABLES:
        found += only_one_has(table, source_rows(server, table), map(canonical, run.query(table)))
    return found


def landed_twice() -> int:
    """How many facts of the raw tables say the same of the same key at the same position."""
    return twice(dict(zip(TABLES, (["id"], ["a", "b"]), strict=True)))
