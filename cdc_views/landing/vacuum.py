"""What was deleted from a Delta table, gone from its folder: replaced files, and the log entries that describe them.

A log entry holds the least and greatest value of each column of a file it added, and a DELETE's holds its condition. So
the log begins anew at a checkpoint. Versions before it are no longer to be had, and a reader that is at one of them
fails; a writer that has not committed yet is left alone, for its files are in no log entry.
"""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable

from cdc_views.landing.checkpoints import LOG, age, before, remove
from cdc_views.landing.delta import delta_errors, record
from cdc_views.landing.digests import FOLDER, note_missing

ORPHANED_AFTER = 3600.0
"""Seconds after which a file that no log entry names belongs to no writer any more."""
_MARK = "cdc-views:purge"


def purge(location: str) -> None:
    """Remove all that the newest version of a local Delta table does not need; safe to repeat."""
    begin_log_at(location, vacuum_all(location))


def vacuum_all(location: str) -> int:
    """Remove replaced and abandoned files, and write a checkpoint; returns its version."""
    with delta_errors(location):
        table = DeltaTable(location)
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        # a reader wants the log entry of the checkpoint's version too, so let that be one that says nothing
        record(table, {_MARK: int(time.time())})
        table = DeltaTable(location)
        table.create_checkpoint()
        note_missing(table)
    root, known = Path(unquote(table.table_uri.removeprefix("file://"))), active_files(table)
    for path in sorted(root.rglob("*")):
        is_of_table = bool({LOG, FOLDER} & set(path.relative_to(root).parts)) or str(path) in known
        if path.is_file() and not is_of_table and age(path) > ORPHANED_AFTER:
            path.unlink(missing_ok=True)
    return table.version()


def begin_log_at(location: str, version: int) -> None:
    """Remove log entries and checkpoints before `version`, which has a checkpoint."""
    log = Path(location) / LOG
    # what a writer that was killed left of an entry it never made
    abandoned = [file for file in log.glob("*.tmp") if age(file) > ORPHANED_AFTER]
    for file in [*before(log, version), *abandoned]:
        remove(file)


def active_files(table: DeltaTable) -> set[str]:
    """Return the absolute paths of the files that make up the version a table is open at."""
    return {unquote(uri).removeprefix("file://") for uri in table.file_uris()}
