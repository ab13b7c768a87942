"""Tables with many files that are in their logs alone: what a command asks of a log costs the same as if the files were there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from helpers.tiny_project import event, project_at, write_lines

from cdc_views import Project
from cdc_views.state.identity import mark_after
from cdc_views.state.state_table import TRANSACTION, open_state
from cdc_views.storage.delta_log import entry_of
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import write_new
from cdc_views.storage.table_log import TableLog
from cdc_views.table import Table

NAME = "shop.orders"
FILE_BYTES = 100_000_000
ROWS = 1_000_000
AGENTS = 100


def project_with(folder: Path, warehouse: str, options: Mapping[str, str], files: int) -> Table:
    """Return the table of a new project: raw and state have so many files besides a few that are there."""
    table = Project.load(project_at(folder, warehouse, options)).table(NAME)
    landed(folder, table, 0)
    table.materialize()
    if files:
        raw = _with(TableLog.open(table.raw.location), _raw_files(files), _agents(files))
        state = open_state(table.state_location, table.raw.relation, raw=raw)
        assert state is not None
        _with(state.log, _state_files(files, state.log), {TRANSACTION: mark_after(state.mark, raw).number})
    return table


def landed(folder: Path, table: Table, number: int) -> None:
    """Land a file of 100 events."""
    file = write_lines(folder / f"{number}.jsonl", *(event(100 * number + n) for n in range(100)))
    table.land(str(file))


def _agents(files: int) -> dict[str, int]:
    return {f"stream:agent-{number % AGENTS}:{part}": files for number in range(AGENTS) for part in ("at", "nth")}


def _raw_files(files: int) -> Iterator[dict[str, Any]]:
    bounds = {"_landed_at": "2026-11-01T00:00:00.000Z"}
    stats = {"numRecords": ROWS, "minValues": bounds, "maxValues": bounds, "nullCount": {"_landed_at": 0}}
    for _ in range(files):
        yield _add(f"part-00000-{uuid4()}-c000.zstd.parquet", {}, stats)


def _state_files(files: int, log: TableLog) -> Iterator[dict[str, Any]]:
    tags = dict(log.files[0].tags)
    digits = max(1, (files // 2).bit_length() - 1)
    for number in range(files):
        part = f"{('rows', 'judged')[number % 2]}{number // 2 % (1 << digits):0{digits}b}"
        yield {**_add(f"_part={part}/part-{uuid4()}.parquet", {"_part": part}, {"numRecords": ROWS}), "tags": tags}


def _add(path: str, partition: dict[str, str], stats: dict[str, Any]) -> dict[str, Any]:
    told = json.dumps(stats, separators=(",", ":"))
    written = int(time.time() * 1000)
    return {
        "path": path,
        "partitionValues": partition,
        "size": FILE_BYTES,
        "modificationTime": written,
        "dataChange": True,
        "stats": told,
    }


def _with(log: TableLog, adds: Iterator[dict[str, Any]], transactions: Mapping[str, int]) -> TableLog:
    """Commit the files, and a commit without any after them, as a table has that lives on; write a checkpoint of the first."""
    numbers = [{"txn": {"appId": name, "version": number}} for name, number in transactions.items()]
    info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE"}}
    actions = [info, *numbers, *({"add": add} for add in adds)]
    write_new(entry_of(log.folder, log.version + 1), _lines(actions))
    opened(log.location).create_checkpoint()
    write_new(entry_of(log.folder, log.version + 2), _lines([info, *numbers]))
    return log.refreshed()


def _lines(actions: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(action)}\n" for action in actions).encode()
