"""Comparing what a project's views show with what MariaDB itself answers."""

from __future__ import annotations

from collections import Counter

from cdc_producers.mariadb.gtids import Mark, read_gtids
from command_line import CommandLine
from deltalake import DeltaTable
from mariadb_tables import TABLES, canonical, source_rows
from producing import eventually
from services.mariadb import MariaDb

from cdc_views.api import Project

STREAM = "cdc_views_shop:0"


def wait_until_landed(server: MariaDb, *tables: str, within: float = 40.0) -> None:
    """Until each table has landed up to what the server has written by now."""
    end = read_gtids(server.gtid())[0].sequence
    project = Project.load()
    landers = [project.table(table).stream(STREAM) for table in tables or TABLES]

    def has_landed() -> bool:
        positions = [lander.position() for lander in landers]
        return all(position is not None and Mark.of(position).sequence > end for position in positions)

    eventually(has_landed, within=within, what=f"{STREAM} at {end}")


def differences(server: MariaDb, run: CommandLine, *tables: str) -> list[str]:
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
