"""Removes deleted data from a Delta table's folder: replaced files, and the log entries that describe them.

A log entry holds the least and greatest value of each column of the files that it added, and a DELETE's entry its condition.
So the log is cut to begin at a checkpoint, and entries that stay before it lose these values. Earlier versions are then lost, and
readers of one of these fail. Writers that have not committed yet are not disturbed: no log entry names their files.
"""

from __future__ import annotations

import json
import time
from decimal import Decimal
from typing import Any

from deltalake import DeltaTable

from cdc_views.landing.checkpoints import age, before, remove
from cdc_views.landing.delta import LANDED, delta_errors, record
from cdc_views.landing.digests import FOLDER, note_missing
from cdc_views.landing.spreading import HERE, Tasks
from cdc_views.storage.delta_log import LOG, in_place_of
from cdc_views.storage.delta_paths import paths_by_name
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import Place, place_of, write_whole
from cdc_views.storage.table_log import TableLog

ORPHANED_AFTER = 3600.0  # seconds after which a file that no log entry names belongs to no writer any more
_MARK = "cdc-views:purge"
_BOUNDS = ("minValues", "maxValues", "nullCount")
_OF_OURS = frozenset({LANDED})
_NO_CONDITIONS = frozenset({"mode", "partitionBy"})


def purge(location: str, *, tasks: Tasks = HERE) -> None:
    """Remove all that the newest version of a Delta table does not need; safe to repeat."""
    begin_log_at(location, vacuum_all(location, tasks=tasks))


def vacuum_all(location: str, *, tasks: Tasks = HERE) -> int:
    """Remove replaced and abandoned files, and write a checkpoint; return its version. `tasks` read files without a digest."""
    with delta_errors(location):
        table = opened(location)
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        # readers also need the log entry of the checkpoint's version, so make that an entry without values
        record(table, {_MARK: int(time.time())})
        table = opened(location)
        table.create_checkpoint()
        note_missing(table, tasks=tasks)
    root, known = place_of(table.table_uri), active_files(table)
    files = TableLog.open(root, version=table.version()).files
    known |= {str(file.deleted.place(root)) for file in files if file.deleted is not None}
    for path in sorted(root.rglob("*")):
        is_of_table = bool({LOG, FOLDER} & set(path.relative_to(root).parts)) or str(path) in known
        if path.is_file() and not is_of_table and age(path) > ORPHANED_AFTER:
            path.unlink(missing_ok=True)
    return table.version()


def begin_log_at(location: str, version: int) -> None:
    """Remove log entries and checkpoints before `version`, which has a checkpoint.

    A young entry stays, without values: a writer that saw the version before it may be about to create it, and would put its rows
    where no reader looks for them.
    """
    log = place_of(location) / LOG
    # remains of log entries that a killed writer never finished
    abandoned = [file for file in log.glob("*.tmp") if age(file) > ORPHANED_AFTER]
    for file in [*before(log, version), *abandoned]:
        if file.suffix == ".json" and file.stem.isdigit() and age(file) <= ORPHANED_AFTER:
            _drop_values(file)
        else:
            remove(file)


def _drop_values(entry: Place) -> None:
    content = entry.read_bytes()
    try:
        actions = [json.loads(line) for line in content.splitlines() if line.strip()]
        has_changed = [_drop_values_of(action) for action in actions]
    except ValueError:  # nobody can read it
        remove(entry)
        return
    if any(has_changed):
        write_whole(entry, in_place_of(content, actions).decode())


def _drop_values_of(action: dict[str, Any]) -> bool:
    """Drop bounds of values, but of landing times, and conditions from an action of Delta's log; return whether it had any."""
    changed = False
    for file in (action[kind] for kind in ("add", "remove") if kind in action):
        if file.get("stats"):
            stats = json.loads(file["stats"], parse_float=Decimal)
            bounds = {name: found for name in _BOUNDS if (found := stats.get(name)) and not found.keys() <= _OF_OURS}
            for name, found in bounds.items():
                stats[name] = {column: value for column, value in found.items() if column in _OF_OURS}
            if bounds:
                file["stats"], changed = json.dumps(stats, separators=(",", ":"), default=str), True
    asked = (action.get("commitInfo") or {}).get("operationParameters") or {}
    if not asked.keys() <= _NO_CONDITIONS:
        action["commitInfo"]["operationParameters"] = {name: asked[name] for name in asked.keys() & _NO_CONDITIONS}
        changed = True
    return changed


def active_files(table: DeltaTable) -> set[str]:
    """Return the absolute paths of the files of the version at which a table is open."""
    return set(paths_by_name(table).values())
