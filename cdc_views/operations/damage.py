"""Finds the damaged file behind an error, because engines' messages name neither table nor file.

Searches only after a failure, so that reads cost nothing more: first Delta's logs, then footers and sizes, then every page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, TypeVar

from cdc_views.errors import CdcViewsError, DamagedFileError, EngineError, TransientError
from cdc_views.operations.context import TableContext
from cdc_views.storage.places import Place, arrow_source, local_folder, place_of

_T = TypeVar("_T")
_Class = TypeVar("_Class", bound=type)
_LOOKED = "cdc_views_looked_for_damage"
"""Marks an error that passes through several methods of a table, so that its files are read once."""
_DIGITS = 20
"""Digits of the version in the names of Delta's log files."""


@contextmanager
def naming_damage(*tables: TableContext) -> Iterator[None]:
    """Replace an error with `DamagedFileError` if a damaged file of these tables explains it."""
    try:
        yield
    except Exception as error:
        found = damage_behind(error, tables)
        if found is None:
            raise
        raise found from error


def names_damage(kind: _Class) -> _Class:
    """Wrap every public method of a table class in `naming_damage`."""
    for name, method in list(vars(kind).items()):
        if not name.startswith("_") and callable(method) and not isinstance(method, type):
            setattr(kind, name, _naming(method))
    return kind


def _naming(method: Callable[..., _T]) -> Callable[..., _T]:
    @wraps(method)
    def called(table: TableContext, *given: Any, **options: Any) -> _T:
        with naming_damage(table):
            return method(table, *given, **options)

    return called


def damage_behind(error: Exception, tables: tuple[TableContext, ...]) -> DamagedFileError | None:
    """Return the damaged file behind an error; None if there is none, for usage and transient errors, and if already searched."""
    is_ours = isinstance(error, CdcViewsError)
    if isinstance(error, (DamagedFileError, TransientError)) or (is_ours and not isinstance(error, EngineError)):
        return None
    if getattr(error, _LOOKED, False):
        return None
    setattr(error, _LOOKED, True)
    return next((found for table in tables if (found := damage_of(table)) is not None), None)


def damage_of(table: TableContext) -> DamagedFileError | None:
    """Return the first damaged file of a local table; None if all files are readable."""
    if table.project.is_remote:
        return None
    for what, location, remedy in _kept(table):
        log = location / "_delta_log"
        for path, why in (list(_damaged_log(log)) or _damaged_files(location)) if log.is_dir() else ():
            return DamagedFileError(table.name, what=what, file=path, why=why, remedy=remedy)
    return None


def missing_of(table: TableContext) -> DamagedFileError | None:
    """Return the first file that is not as large as a table's logs say, or not there; None without one. Opens no file but the
    logs; of a store, which would be asked for each file, it knows nothing.
    """
    if table.project.is_remote:
        return None
    for what, location, remedy in _kept(table):
        for path, size in _active(location) if local_folder(str(location)) is not None and location.is_dir() else ():
            if why := _misplaced(path, size):
                return DamagedFileError(table.name, what=what, file=path, why=why, remedy=remedy)
    return None


def _kept(table: TableContext) -> Iterator[tuple[str, Place, str]]:
    """Yield the role, location and remedy for a damaged file of each Delta table of a table."""
    from cdc_views.landing import quarantine_location
    from cdc_views.state.tail import dropped_through

    backup = "restore it from a backup"
    with suppress(CdcViewsError, OSError):
        raw, root = place_of(table.raw.location), table.generations.root
        begin = f"run `cdc-views rebuild {table.name} --accept`, which begins it anew"
        anew = f"{backup}; without one, move {raw} and {root} away, {begin}, and land its events again"
        yield "raw table", raw, anew
        yield "quarantine", place_of(quarantine_location(table.raw)), f"{backup}; without one, move it away: its events are lost"
        is_cut = False
        with suppress(Exception):
            is_cut = dropped_through(table.raw.location) is not None
        state = place_of(table.state_location)
        rebuilt = f"move {state} away and run `cdc-views materialize --select {table.name}`, which builds it from raw"
        lost = f"{backup}: events were dropped from raw, so raw alone cannot build it"
        yield "state", state, lost if is_cut else rebuilt
        if (serving := table.serving_location) is not None:
            again = f"move {serving} away and run `cdc-views materialize --select {table.name}`, which builds it anew"
            yield "serving table", place_of(serving), again


def _damaged_log(log: Place) -> Iterator[tuple[Place, str]]:
    commits = {int(path.stem): path for path in log.glob("*.json") if len(path.stem) == _DIGITS and path.stem.isdigit()}
    checkpoints = sorted(log.glob("*.checkpoint*.parquet"))
    newest = max((int(path.name[:_DIGITS]) for path in checkpoints), default=-1)
    for path in checkpoints:
        if int(path.name[:_DIGITS]) == newest and (why := _unreadable(path, all_of_it=True)):
            yield path, why
    for version in range(newest + 1, max(commits, default=newest) + 1):
        path = commits.get(version, log / f"{version:0{_DIGITS}}.json")
        if why := _no_commit(path):
            yield path, why


def _no_commit(path: Place) -> str:
    """Return why a file of Delta's log is no commit; empty for a valid commit."""
    try:
        lines = path.read_text("utf-8").splitlines()
        if not [json.loads(line) for line in lines if line.strip()]:
            return "it is empty"
    except FileNotFoundError:
        return "it is missing, and later commits are there"
    except OSError as error:
        return str(error.strerror)
    except ValueError:
        return "it is cut off or overwritten: not JSON"
    return ""


def _damaged_files(location: Place) -> Iterator[tuple[Place, str]]:
    active = _active(location)
    for all_of_it in (False, True):
        for path, size in active:
            if why := _misplaced(path, size) or _unreadable(path, all_of_it=all_of_it):
                yield path, why


def _active(location: Place) -> list[tuple[Place, int]]:
    """The files that the log of a Delta table names, with their bytes; none if there is no log that can be read."""
    import pyarrow as pa

    from cdc_views.storage.delta_tables import opened

    with suppress(Exception):  # the log is valid JSON but unreadable: the first error is clearer
        actions = pa.table(opened(str(location)).get_add_actions(flatten=True)).to_pylist()
        return [(location / str(action["path"]), int(action["size_bytes"])) for action in actions]
    return []


def _misplaced(path: Place, size: int) -> str:
    """Return why a file is not the one of the log; empty if it may be."""
    if not path.is_file():
        return "it is missing"
    found = path.stat().st_size
    return "" if found == size else f"it has {found:,} bytes, and the log says {size:,}"


def _unreadable(path: Place, *, all_of_it: bool) -> str:
    """Return why a Parquet file, or its footer alone, is unreadable; empty if it is readable."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(arrow_source(path, is_fresh=True)) as file:
            for _ in file.iter_batches() if all_of_it else ():
                pass
    except Exception as error:  # Arrow's errors, OSError, and what Thrift raises for a footer of noise
        return f"it is no whole Parquet file: {(str(error).splitlines() or [type(error).__name__])[0]}"
    return ""
