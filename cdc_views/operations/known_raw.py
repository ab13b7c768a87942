"""Remembers the raw table of each table, to notice a missing table or another one in its place.

An unmounted folder, a mistyped path and a restored backup look like a table with fewer events. The record is in the
warehouse: Delta's id of the raw table, and a version that it has at least. Landing and materializing raise that version;
reads compare with it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from deltalake import DeltaTable

from cdc_views.errors import EngineError
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.raw_table import is_delta
from cdc_views.model.whole_files import write_whole
from cdc_views.operations.context import TableContext
from cdc_views.project.paths import is_url
from cdc_views.state.identity import RawMismatchError, entry_digest, is_continued, path_of, why_not_continued
from cdc_views.state.state_table import is_built
from cdc_views.state.taking import why_taken

_FOLDER = "_cdc_views/raw"
_BACK = "put it back: mount its disk, or correct `raw.table` in the project file"


@dataclass(frozen=True, slots=True)
class KnownRaw:
    """A raw table seen before: Delta's id, a version, and the digest of that version's log entry (0: unknown)."""

    id: str
    version: int
    entry: int

    @classmethod
    def of(cls, raw: DeltaTable) -> KnownRaw:
        """Return `raw` at its open version."""
        return cls(str(raw.metadata().id), raw.version(), entry_digest(path_of(raw), raw.version()))


def check_known(table: TableContext) -> None:
    """Raise `RawMismatchError` if the raw table is gone, is another one, or lacks commits seen before.

    Skips raw tables in a remote warehouse.
    """
    if table.project.is_remote:
        return
    location, known = table.location, _read(table)
    if known is not None and known.entry and entry_digest(location, known.version) == known.entry:
        _check_whole(table, known)  # its log has that very commit
        return
    raw = None
    if is_delta(location):
        with delta_errors(location):
            raw = DeltaTable(location)
    if raw is None:
        if known is not None or (trace := _trace(table)):
            what = f"version {known.version} of it was seen" if known is not None else f"{trace} is there, which was made from it"
            raise RawMismatchError(f"{table.name}: its raw table {location} is gone: {what}; {_BACK}. {_acceptance(table)}")
    elif known is not None:
        if why := _mismatch(raw, known):
            raise _mismatch_error(table, f"{why}; {_BACK}")
        _check_whole(table, known, newest=raw.version())


def remember(table: TableContext, *, accepts: bool = False) -> None:
    """Record the current raw table; does nothing if it is missing or remote.

    Raises `RawMismatchError`, as `check_known` does, unless `accepts` is set.
    """
    if table.project.is_remote or not is_delta(table.location):
        return
    if not accepts:
        check_known(table)
    with delta_errors(table.location):
        known = KnownRaw.of(DeltaTable(table.location))
    if known == _read(table):
        return
    file = _file(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(asdict(known)) + "\n")


def _mismatch(raw: DeltaTable, known: KnownRaw) -> str:
    if str(raw.metadata().id) != known.id and not is_continued(raw, known.version, known.entry):
        return "it is another Delta table"
    return why_not_continued(raw, known.version, known.entry)


def _check_whole(table: TableContext, known: KnownRaw, *, newest: int | None = None) -> None:
    # the owner of an external table may take rows out of it
    if not table.is_external and (why := why_taken(table.location, known.version, newest)):
        raise _mismatch_error(table, why)


def _mismatch_error(table: TableContext, why: str) -> RawMismatchError:
    return RawMismatchError(f"{table.name}: its raw table {table.location} is not the one seen last: {why}. {_acceptance(table)}")


def _acceptance(table: TableContext) -> str:
    return (
        "If the raw table of now is right, or one is to begin empty, take it with "
        f"`cdc-views rebuild {table.name} --accept`; `--with-state` keeps what the state has"
    )


def _trace(table: TableContext) -> str:
    """Return what was built from a raw table without a record; empty without a trace."""
    generations = table.generations
    for number in generations.numbers:
        if is_built(location := generations.location(number)):
            return f"state {location}"
    serving = table.serving_location
    if serving is not None and is_delta(serving):
        return f"serving table {serving}"
    forgotten = table.forgotten_file
    return f"the file of forgotten keys {forgotten}" if forgotten.exists() else ""


def _file(table: TableContext) -> Path:
    """Return the record's file; landed and external tables have one each, as a new `layout` means another raw table."""
    name = table.config.slug
    return table.project.warehouse / _FOLDER / f"{name}{'.found' if table.is_external else ''}.json"


def _read(table: TableContext) -> KnownRaw | None:
    if is_url(table.project.config.warehouse):
        return None
    file = _file(table)
    try:
        return KnownRaw(**json.loads(file.read_text("ascii")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise EngineError(
            f"{file}: is damaged; it says which raw table {table.name} has. If {table.location} is the right one, delete the file"
        ) from error
