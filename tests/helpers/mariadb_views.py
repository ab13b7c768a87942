"""Comparing what a project's views show with what MariaDB itself answers."""

from __future__ import annotations

from cdc_producers.binlog.marks import Mark
from cdc_producers.mariadb.gtids import read_gtids
from services.mariadb import MariaDb

from cdc_views.api import Project
from helpers.command_line import CommandLine
from helpers.comparing import only_one_has, raw_location, twice
from helpers.mariadb_tables import TABLES, canonical, source_rows
from helpers.producing import eventually

__all__ = ["STREAM", "differences", "landed_twice", "raw_location", "wait_until_landed"]
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
        found += only_one_has(table, source_rows(server, table), map(canonical, run.query(table)))
    return found


def landed_twice() -> int:
    """How many facts of the raw tables say the same of the same key at the same position."""
    return twice(dict(zip(TABLES, (["id"], ["a", "b"]), strict=True)))
