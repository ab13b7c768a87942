"""Comparing what a project's views show with what PostgreSQL itself answers."""

from __future__ import annotations

from collections import Counter

from command_line import CommandLine
from deltalake import DeltaTable
from postgres_tables import TABLES, canonical, source_rows
from producing import eventually
from services.postgres import Postgres

from cdc_views.api import Project

SLOT = "cdc_views_shop"


def wait_until_landed(server: Postgres, *, within: float = 40) -> None:
    """Until the slot is confirmed up to what the server has written by now."""
    ((end,),) = server.sql("SELECT pg_current_wal_lsn()::text")
    text = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    eventually(lambda: server.sql(text, (end, SLOT)) == [(True,)], within=within, what=f"slot {SLOT} at {end}")


def differences(server: Postgres, run: CommandLine, *tables: str) -> list[str]:
    """The rows that only one of source and view has; empty where they are equal."""
    found = []
    for table in tables or TABLES:
        view = Counter(canonical(row) for row in run.query(table))
        source = Counter(source_rows(server, table))
        found += [f"{table}: only the source has {row}" for row in source - view]
        found += [f"{table}: only the view has {row}" for row in view - source]
    return found


def raw_location(table: str) -> str:
    """Where the raw table of the project in the working directory is."""
    return Project.load().table(table).location


def landed_twice() -> int:
    """How many facts of the raw tables say the same of the same key at the same position."""
    twice = 0
    for table, keys in zip(TABLES, (["id"], ["a", "b"]), strict=True):
        raw = DeltaTable(raw_location(table)).to_pyarrow_table()
        facts = [tuple(str(row[name]) for name in (*keys, "_kind", "_live", "_deleted")) for row in raw.to_pylist()]
        twice += len(facts) - len(set(facts))
    return twice
