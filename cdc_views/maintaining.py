"""`maintain`: fewer and larger files, and the space of those that nothing reads any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from cdc_views.errors import UsageError
from cdc_views.landing.delta import RAW_FILES, delta_errors
from cdc_views.landing.raw_table import is_delta, quarantine_location
from cdc_views.materialize.state import is_built
from cdc_views.raw_places import generations_of

if TYPE_CHECKING:
    from cdc_views.table import Table

LEAST_HOURS = 1
"""Files younger than this may be part of a commit that another process is making."""
USUAL_HOURS = 168


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What was done to one Delta table, or would be.

    Attributes:
        what: raw, quarantine, state, an old generation of state, or serving.
        location: Where it is.
        merged: Small files that became larger ones; None in a dry run, which cannot know.
        removed: Files that no reader needs, and their bytes.
        bytes: See `removed`.
    """

    what: str
    location: str
    merged: int | None
    removed: int
    bytes: int


def maintain_table(table: Table, *, retention_hours: int = USUAL_HOURS, dry_run: bool = False) -> list[Upkeep]:
    """Merge small files of raw and quarantine, remove files that were replaced more than so many hours ago.

    State merges its files by itself, and a serving table has one a bucket. Generations of state before the previous one
    are deleted. No event is lost: what is removed was replaced by files that hold the same, and Delta's versions before are
    no longer to be had.

    Raises `UsageError` for a retention that could take files from a run that is going on.
    """
    if retention_hours < LEAST_HOURS:
        raise UsageError(
            f"--retention-hours is {retention_hours}; at least {LEAST_HOURS} was expected: a run that is going on may still "
            "write, and a reader still read, younger files"
        )
    done = list(_kept_up(table, retention_hours, dry_run=dry_run))
    if not dry_run:
        table.refresh()
    return done


def _kept_up(table: Table, hours: int, *, dry_run: bool) -> Iterator[Upkeep]:
    if not table.is_found:
        for what, location in (("raw", table.raw.location), ("quarantine", quarantine_location(table.raw))):
            if is_delta(location):
                yield _upkeep(what, location, hours, merges=True, dry_run=dry_run)
    generations = generations_of(table)
    kept = generations.before(is_built)
    for number in generations.numbers:
        location = generations.location(number)
        if number in (generations.current, kept):
            if is_delta(location):
                yield _upkeep("state", location, hours, merges=False, dry_run=dry_run)
        elif number < generations.current:
            yield _gone(location, dry_run=dry_run)
    if table.serving_location is not None and is_delta(table.serving_location):
        yield _upkeep("serving", table.serving_location, hours, merges=False, dry_run=dry_run)


def _upkeep(what: str, location: str, hours: int, *, merges: bool, dry_run: bool) -> Upkeep:
    with delta_errors(location):
        table = DeltaTable(location)
        merged = None
        if not dry_run:
            merged = int(table.optimize.compact(writer_properties=RAW_FILES)["numFilesRemoved"]) if merges else 0
        paths = table.vacuum(retention_hours=hours, enforce_retention_duration=False, dry_run=True)
        size = sum(_size(Path(location) / path) for path in paths)
        if not dry_run:
            table.vacuum(retention_hours=hours, enforce_retention_duration=False, dry_run=False)
    return Upkeep(what, location, merged, len(paths), size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _gone(location: str, *, dry_run: bool) -> Upkeep:
    files = [Path(folder) / name for folder, _, names in os.walk(location) for name in names]
    size = sum(map(_size, files))
    if not dry_run:
        shutil.rmtree(location)
    return Upkeep("old generation", location, 0, len(files), size)
