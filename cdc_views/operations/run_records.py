"""What earlier runs found: a small JSON file a run in the warehouse, so that lag, rows and tests have a trend.

A record never makes a run fail. Files are named by their instant, so their order is that of the runs; the oldest go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from cdc_views.errors import CdcViewsError
from cdc_views.storage.places import Place, at_once, write_new

if TYPE_CHECKING:
    from cdc_views.operations.context import ProjectContext

FOLDER = "_cdc_views/runs"
KEPT = 400
"""Records of each command; the oldest beyond go."""
LARGEST = 64 << 10
"""Bytes of a record. Of a run that says more, the figures of its last tables are left out."""
_NAMED = "%Y%m%dT%H%M%S.%fZ"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run of a command that ended at `at` (ISO 8601, UTC). `tables` has the figures of each table; `left_out` counts tables
    for which there was no room.
    """

    command: str
    at: str
    seconds: float
    tables: Mapping[str, Mapping[str, Any]]
    left_out: int = 0

    @classmethod
    def of(cls, command: str, tables: Mapping[str, Mapping[str, Any]], *, now: datetime, seconds: float) -> RunRecord:
        """Return the record of a run that ended at `now`."""
        return cls(command, now.astimezone(timezone.utc).isoformat(), round(seconds, 3), tables)


def keep_run(project: ProjectContext, record: RunRecord) -> str:
    """Leave a record of a run; return why there is none, empty if there is."""
    try:
        folder = _folder(project)
        folder.mkdir(parents=True, exist_ok=True)
        at = datetime.fromisoformat(record.at)
        name = f"{at.strftime(_NAMED)}-{record.command}-{uuid4().hex[:8]}.json"
        write_new(folder / name, _content(record))
        for old in _files(folder, {record.command})[:-KEPT]:
            old.unlink(missing_ok=True)
    except (OSError, CdcViewsError) as error:
        return str(error)
    return ""


def runs_of(project: ProjectContext, *commands: str, most: int = KEPT) -> list[RunRecord]:
    """Return the newest records of commands (default: of all), oldest first; without those that are damaged or away."""
    folder = _folder(project)
    try:
        files = _files(folder, set(commands))[-most:]
    except (OSError, CdcViewsError):
        return []
    return [record for record in at_once(_read, files) if record is not None]


def _files(folder: Place, commands: set[str]) -> list[Place]:
    try:
        named = sorted(folder.iterdir(), key=lambda file: file.name)
    except FileNotFoundError:
        return []
    parts = ((file, file.name.split("-")) for file in named if file.name.endswith(".json"))
    return [file for file, words in parts if len(words) == 3 and (not commands or words[1] in commands)]


def _read(file: Place) -> RunRecord | None:
    try:
        told = json.loads(file.read_text("utf-8"))
        return RunRecord(
            str(told["command"]), str(told["at"]), float(told["seconds"]), dict(told["tables"]), int(told["left_out"])
        )
    except (OSError, ValueError, KeyError, TypeError, CdcViewsError):
        return None


def _content(record: RunRecord) -> bytes:
    names = list(record.tables)
    kept = len(names)
    while True:
        tables = {name: record.tables[name] for name in names[:kept]}
        told = asdict(RunRecord(record.command, record.at, record.seconds, tables, len(names) - kept))
        content = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
        if len(content) <= LARGEST or not kept:
            return content
        kept = kept // 2


def of_table(records: Iterable[RunRecord], name: str) -> list[tuple[RunRecord, Mapping[str, Any]]]:
    """Return the records that tell of a table, with its figures."""
    return [(record, record.tables[name]) for record in records if name in record.tables]


def _folder(project: ProjectContext) -> Place:
    place: Place = project.root if project.is_remote else project.warehouse
    return place / FOLDER
