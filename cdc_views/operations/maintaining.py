"""`maintain`: merges small files and removes files that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdc_views.errors import UsageError
from cdc_views.landing.checkpoints import age, before, beginning, remove, superseded
from cdc_views.landing.delta import delta_errors
from cdc_views.landing.digests import note_missing
from cdc_views.landing.raw_table import is_delta, quarantine_location
from cdc_views.landing.spreading import Tasks
from cdc_views.operations.applying import Changed, refresh_view
from cdc_views.operations.context import TableContext
from cdc_views.operations.erasing.rewriting import without_bounds
from cdc_views.operations.known_raw import check_known
from cdc_views.operations.lateness import state_of
from cdc_views.operations.merging import merge_files
from cdc_views.operations.spreading import spreading
from cdc_views.state.serving import noted_at, open_serving
from cdc_views.state.state_table import id_of, is_built, open_state
from cdc_views.storage.deletion_vectors import BITS_FOLDER
from cdc_views.storage.delta_log import DRAFT, LOG, unused_vectors
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import Place, place_of, remove_tree
from cdc_views.storage.table_log import TableLog

LEAST_HOURS = 1
"""A younger file may belong to a commit that is still running in another process."""
USUAL_HOURS = 168
_NEWEST = 1 << 62
"""Above every version."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The upkeep of one Delta table, done or planned.

    `what` is raw, quarantine, state, old generation or serving. `merged` counts small files merged into larger ones (None in a
    dry run), `removed` unneeded files, with their `bytes`, and `log_entries` unneeded entries and checkpoints of Delta's log.
    """

    what: str
    location: str
    merged: int | None
    removed: int
    bytes: int
    log_entries: int = 0


def maintain_table(table: TableContext, *, retention_hours: int = USUAL_HOURS, dry_run: bool = False) -> list[Upkeep]:
    """Merge small files of raw and quarantine; remove files replaced more than `retention_hours` ago.

    State merges its own files, and a serving table has one file per bucket. Deletes generations of state before the previous one.
    Loses no event: other files hold the same rows. Older versions of the tables become unreadable, and their log entries go,
    except entries of raw that a state or serving table does not cover yet. Raises `UsageError` if the retention is so short that
    it could remove files of a current run, `StateChangedError` if somebody else changed the state: undoing it needs old files.
    """
    if retention_hours < LEAST_HOURS:
        raise UsageError(
            f"--retention-hours is {retention_hours}; at least {LEAST_HOURS} was expected: a run that is going on may still "
            "write, and a reader still read, younger files"
        )
    check_known(table)  # a generation of state may be the only copy
    state_of(table)  # refuses a state that somebody else changed: vacuum would delete the files that undo it
    if not dry_run:
        refresh_view(table, Changed.STATE)  # it may follow a generation that is deleted now
    with spreading(table.project) as tasks:
        done = list(_kept_up(table, _Keeping(retention_hours, dry_run, tasks)))
    if not dry_run:
        refresh_view(table)
    return done


@dataclass(frozen=True, slots=True)
class _Keeping:
    """How tables are kept up: for how many hours what was replaced stays, and where files are read."""

    hours: int
    dry_run: bool
    tasks: Tasks


def _kept_up(table: TableContext, how: _Keeping) -> Iterator[Upkeep]:
    if not table.is_external:
        raw, floor = table.raw.location, covered_by_all(table)
        for what, location, least in (("raw", raw, floor), ("quarantine", quarantine_location(table.raw), _NEWEST)):
            if is_delta(location):
                yield _upkeep(what, location, how, merges=True, floor=least)
    generations = table.generations
    kept = generations.before(is_built)
    for number in generations.numbers:
        location = generations.location(number)
        if number in (generations.current, kept):
            if is_delta(location):
                yield _upkeep("state", location, how, merges=False)
        elif number < generations.current:
            files = [path for path in place_of(location).rglob("*") if path.is_file()]
            size = sum(map(_size, files))
            if not how.dry_run:
                remove_tree(place_of(location))
            yield Upkeep("old generation", location, 0, len(files), size)
    if table.serving_location is not None and is_delta(table.serving_location):
        floor = noted_at(table.serving_location)
        yield _upkeep("serving", table.serving_location, how, merges=False, floor=floor)


def covered_by_all(table: TableContext) -> int:
    """Return the first version of raw whose log entry is needed: the least version that a state or the serving table covers."""
    raw = table.raw
    log = TableLog.find(raw.location)
    if log is None:
        return _NEWEST
    generations = table.generations
    states = [open_state(generations.location(n), raw.relation, raw=log) for n in generations.numbers]
    covered = [state.raw_version for state in states if state is not None]
    if table.serving_location is not None and is_delta(table.serving_location) and is_delta(table.state_location):
        state_id = id_of(table.state_location)
        covered.append(open_serving(table.serving_location, raw.relation, state_id=state_id).raw_version)
    return min((version for version in covered if version is not None), default=_NEWEST)


def _upkeep(what: str, location: str, how: _Keeping, *, merges: bool, floor: int = _NEWEST) -> Upkeep:
    folder, hours = place_of(location), how.hours
    log = folder / LOG
    with delta_errors(location):
        begins = beginning(log, floor=floor, seconds=hours * 3600)
        old = {*([] if begins is None else before(log, begins)), *superseded(log)}
        for path in set() if how.dry_run else old:
            remove(path)
        merged = None
        if not how.dry_run:
            merged = merge_files(location, tasks=how.tasks) if merges else 0
        table = opened(location)
        if not how.dry_run:
            without_bounds(table, tasks=how.tasks)
        paths = table.vacuum(retention_hours=hours, enforce_retention_duration=False, dry_run=True)
        unused = _unused_beside(folder, table.version(), seconds=hours * 3600)
        size = sum(map(_size, (*(folder / path for path in paths), *unused)))
        if not how.dry_run:
            table.vacuum(retention_hours=hours, enforce_retention_duration=False, dry_run=False)
            for path in unused:
                path.unlink(missing_ok=True)
            table.create_checkpoint()
            note_missing(table, tasks=how.tasks)
    return Upkeep(what, location, merged, len(paths) + len(unused), size, len(old))


def _unused_beside(folder: Place, version: int, *, seconds: float) -> list[Place]:
    """Return deletion vectors that no file has any more, their bits for DuckDB, and drafts of killed runs, if they are so old."""
    bits = sorted((folder / BITS_FOLDER).glob("*.parquet"), key=age)[1:]  # the newest is in use
    drafts = [path for path in folder.glob(f"{DRAFT}*/**/*") if path.is_file()]
    vectors = unused_vectors(folder, TableLog.open(folder, version=version).files)
    return [path for path in (*vectors, *bits, *drafts) if age(path) > seconds]


def _size(path: Place) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
