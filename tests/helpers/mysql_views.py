"""Comparing what a project's views show with what MySQL itself answers."""

from __future__ import annotations

from cdc_producers.binlog.log_files import gtids_in
from cdc_producers.mysql.gtids import GtidSet
from services.mysql import MySql

from cdc_views.api import Project
from helpers.command_line import CommandLine
from helpers.comparing import only_one_has
from helpers.mariadb_tables import TABLES, canonical, source_rows
from helpers.producing import eventually

STREAM = "cdc_views_shop"


def wait_until_landed(server: MySql, *tables: str, within: float = 60.0) -> None:
    """Until each table has landed all that the server has committed by now."""
    end = GtidSet.read(server.gtids())
    project = Project.load()
    landers = [project.table(table).stream(STREAM) for table in tables or TABLES]

    def lacking() -> list[str]:
        notes = [GtidSet.read(gtids_in(lander.note())) for lander in landers]
        return [missing for note in notes if (missing := note.lacks(end))]

    eventually(lambda: not lacking(), within=within, what=lacking())


def differences(server: MySql, run: CommandLine, *tables: str) -> list[str]:
    """The rows that only one of source and view has; empty where they are equal."""
    found = []
    for table in tables or TABLES:
        found += only_one_has(table, source_rows(server, table), map(canonical, run.query(table)))
    return found
