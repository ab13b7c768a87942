"""The one writer of a state's commits: the files that an engine wrote, and deletion vectors for the rows that they replace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from pyroaring import BitMap64

from cdc_views.engines.base import StateWrite, Written
from cdc_views.engines.snapshot import readable
from cdc_views.engines.state_plan import part_in
from cdc_views.landing.checkpoints import sum_up
from cdc_views.landing.digests import RESTORE, changed_among, check_as_written, note_commit
from cdc_views.plan.compact import PART, Step
from cdc_views.plan.parts import Part
from cdc_views.state.file_statistics import tags_of
from cdc_views.state.state_table import StateTable, part_of_file
from cdc_views.state.tail import dropped_through
from cdc_views.storage import deletion_vectors
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_log import Commit, new_file
from cdc_views.storage.places import Place, arrow_source, at_once, place_of
from cdc_views.storage.relation import Relation
from cdc_views.storage.table_log import TableLog

_OPERATIONS = {Step.RUN: "WRITE", Step.MERGE: "MERGE", Step.BUCKETS: "WRITE", Step.BASE: "WRITE"}


def commit_written(
    state: StateTable, write: StateWrite, written: Written, *, removed: Iterable[DataFile], transactions: Mapping[str, int]
) -> TableLog:
    """Commit what an engine wrote as the version after `state`, without the files `removed`; return the log after it.

    Raises `ConflictError` if somebody else committed since: the files to replace may have changed. Raises `DamagedFileError` if
    the bytes of a removed file changed after it was written.
    """
    folder, relation = place_of(state.location), write.sources.raw.relation
    is_merged = write.step is Step.MERGE
    added = at_once(lambda path: _added(folder, path, relation, is_merged=is_merged), written.files)
    replaced, masked = _replaced(folder, state, written.replaced)
    gone, stays = (*removed, *replaced), {file.path for file in masked}
    _check_as_written(state, write, [file for file in gone if file.path not in stays])
    # rewritten buckets change data, too: facts that are about more than a row are reduced, and rows turn plain
    commit = Commit(_OPERATIONS[write.step], (*added, *masked), gone, transactions)
    log = state.log.with_commit(commit.write(folder, after=state.version))
    sum_up(log.location, log.version, log.metadata.configuration)
    note_commit(log.location, log.version)
    return log


def _check_as_written(state: StateTable, write: StateWrite, gone: Iterable[DataFile]) -> None:
    remembered, other = list[str](), list[str]()
    for file in gone:  # M2: only the state knows what it purged, and what landed too late
        (remembered if part_of_file(file) in {Part.PURGED, Part.LATE} else other).append(file.path)
    check_as_written(state.location, remembered, what="state")
    if not write.sources.is_raw and changed_among(state.location, other):
        has_all = state.is_sole or dropped_through(write.sources.raw.location)
        anew = RESTORE if has_all else "build the state anew, `cdc-views materialize --full`"
        check_as_written(state.location, other, what="state", remedy=anew)


def _added(folder: Place, path: str, relation: Relation, *, is_merged: bool) -> DataFile:
    file = folder / path
    with readable(str(file)):
        footer = pq.read_metadata(arrow_source(file))
    tags = tags_of(footer, relation, is_merged=is_merged)
    return new_file(file, path, partition={PART: part_in(path)}, rows=footer.num_rows, tags=tags)


def _replaced(folder: Place, state: StateTable, replaced: Mapping[str, Iterable[int]]) -> tuple[list[DataFile], list[DataFile]]:
    """Return the files of which rows were replaced, as they were, and as they are now; those without rows are gone."""
    known = {file.path: file for file in state.files}
    before: list[DataFile] = []
    positions: dict[str, BitMap64] = {}
    for place, found in replaced.items():
        file = known[_within(folder, place)]
        hidden = BitMap64(found)
        if file.deleted is not None:
            hidden |= deletion_vectors.read(folder, file.deleted)
        before.append(file)
        if len(hidden) < file.rows:
            positions[file.path] = hidden
    vectors = deletion_vectors.write(folder, positions)
    return before, [known[path].without(vector) for path, vector in vectors.items()]


def _within(folder: Place, place: str) -> str:
    """Return a file's path within the table, given its path or URL as an engine spells it."""
    if isinstance(folder, Path):
        # Spark writes `file:/…`
        return str((Path(unquote(urlsplit(place).path)) if place.startswith("file:") else Path(place)).relative_to(folder))
    return unquote(place.partition("://")[2]).removeprefix(f"{str(folder).partition('://')[2]}/")
