"""Remembers each table's raw table, to notice if it is missing or another one is in its place: an unmounted folder, a mistyped
path and a restored backup look like a table with fewer events. The record, in the warehouse, has Delta's id of the raw table and
a version that it must have reached. Landing and materializing raise it; reads compare with it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from cdc_views.errors import EngineError
from cdc_views.landing.raw_table import is_delta
from cdc_views.operations.context import TableContext
from cdc_views.state.identity import RawMismatchError, entry_digest, is_continued, why_not_continued
from cdc_views.state.state_table import is_built
from cdc_views.state.tail import why_taken
from cdc_views.storage.places import Place, write_whole
from cdc_views.storage.table_log import TableLog

_BACK = "put it back: mount its disk, or correct `raw.table` in the project file"


@dataclass(frozen=True, slots=True)
class KnownRaw:
    """A raw table seen before: Delta's id, a version, and the digest of that version's log entry (0: unknown)."""

    id: str
    version: int
    entry: int


def check_known(table: TableContext) -> None:
    """Raise `RawMismatchError` if the raw table is gone, is another one, or lacks commits seen before. Skips remote tables."""
    if table.project.is_remote:
        return
    location, known, raw = table.location, _read(table), TableLog.find(table.location)
    if raw is None:
        seen = f"version {known.version} of it was seen" if known is not None else _trace(table)
        if seen:
            raise RawMismatchError(f"{table.name}: its raw table {location} is gone: {seen}; {_BACK}. {_acceptance(table)}")
        return
    if known is None:
        return
    if not is_continued(raw, known.version, known.entry):
        if raw.metadata.id != known.id:
            raise _mismatch_error(table, f"it is another Delta table; {_BACK}")
        if why := why_not_continued(raw, known.version, known.entry):
            raise _mismatch_error(table, f"{why}; {_BACK}")
    # the owner of an external table may remove rows from it
    if not table.is_external and (why := why_taken(raw, known.version)):
        raise _mismatch_error(table, why)


def was_seen(table: TableContext) -> bool:
    """Whether the table had a raw table before, wherever that was."""
    return _read(table) is not None or bool(_trace(table))


def remember(table: TableContext, *, accepts: bool = False) -> None:
    """Record the current raw table unless it is missing or remote; raises like `check_known` unless `accepts` is set."""
    if table.project.is_remote or not is_delta(table.location):
        return
    if not accepts:
        check_known(table)
    raw = TableLog.open(table.location)
    known = KnownRaw(raw.metadata.id, raw.version, entry_digest(raw, raw.version))
    if known != _read(table):
        file = _file(table)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(asdict(known)) + "\n")


def _mismatch_error(table: TableContext, why: str) -> RawMismatchError:
    return RawMismatchError(f"{table.name}: its raw table {table.location} is not the one seen last: {why}. {_acceptance(table)}")


def _acceptance(table: TableContext) -> str:
    return (
        "If the raw table of now is right, or one is to begin empty, take it with "
        f"`cdc-views rebuild {table.name} --accept`; `--with-state` keeps what the state has"
    )


def _trace(table: TableContext) -> str:
    """Describe something that was built from a raw table without a record; empty if there is nothing."""
    built = [f"state {location}" for location in map(table.generations.location, table.generations.numbers) if is_built(location)]
    serving, forgotten = table.serving_location, table.forgotten_file
    if serving is not None and is_delta(serving):
        built.append(f"serving table {serving}")
    if forgotten.exists():
        built.append(f"the file of forgotten keys {forgotten}")
    return f"{built[0]} is there, which was made from it" if built else ""


def _file(table: TableContext) -> Place:
    """Return the record's file; landed and external tables have separate ones, since a new `layout` means another raw table."""
    return table.project.warehouse / "_cdc_views/raw" / f"{table.config.slug}{'.found' if table.is_external else ''}.json"


def _read(table: TableContext) -> KnownRaw | None:
    file = _file(table)
    try:
        return KnownRaw(**json.loads(file.read_text("ascii")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise EngineError(
            f"{file}: is damaged; it says which raw table {table.name} has. If {table.location} is the right one, delete the file"
        ) from error
