"""A physical standby of a test's PostgreSQL, which keeps copies of the slots that fail over (PostgreSQL 17)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.account import free_port
from services.postgres import Postgres

NAME = "standby"
"""Of the slot by which the standby reads; the primary names it in `synchronized_standby_slots`."""
_OF_PRIMARY = ("postmaster.pid", "postmaster.opts")


@contextmanager
def standby_of(primary: Postgres) -> Iterator[Postgres]:
    """A running copy of a primary that follows it; gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-standby-"))
    try:
        _copy(primary, folder / "data")
        primary.account.give(folder)
        source = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
        reads = {"primary_conninfo": source, "primary_slot_name": NAME, "hot_standby_feedback": "on"}
        copies = {"sync_replication_slots": "on", "wal_receiver_status_interval": "1s"}
        standby = Postgres(folder, primary.binaries, primary.account, free_port(), {**reads, **copies})
        try:
            standby.start()
            yield standby
        finally:
            standby.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(primary: Postgres, data: Path) -> None:
    """Copy the folder of the running primary, as `pg_basebackup`, which the tests' binaries lack, does."""
    primary.sql("SELECT pg_create_physical_replication_slot(%s, true)", (NAME,))
    connection = primary.connect()
    try:
        connection.execute("SELECT pg_backup_start('standby', true)")
        shutil.copytree(primary.folder / "data", data, ignore=shutil.ignore_patterns(*_OF_PRIMARY))
        ((label,),) = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchall()
    finally:
        connection.close()
    (data / "backup_label").write_text(label)
    (data / "standby.signal").touch()
    data.chmod(0o700)
