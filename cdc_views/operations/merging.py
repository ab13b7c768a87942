"""Merges small files of a raw table or a quarantine: each merged file in a task or here, and one commit that changes no data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from uuid import uuid4

import pyarrow as pa
from pyroaring import BitMap64

from cdc_views.landing.appending import committed, is_ready_for
from cdc_views.landing.delta import RAW_FILES, delta_errors, write_file
from cdc_views.landing.digests import changed_among
from cdc_views.landing.spreading import HERE, Tasks, leaving_nothing
from cdc_views.operations.erasing.rewriting import live
from cdc_views.storage import deletion_vectors
from cdc_views.storage.conflicts import ConflictError, retried
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_log import Commit
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import place_of
from cdc_views.storage.table_log import TableLog

_TARGET = "delta.targetFileSize"
_USUAL_TARGET = 100 << 20


@dataclass(frozen=True, slots=True)
class _Merge:
    """Files of one partition that become one, whose name begins with `name`."""

    name: str
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def merge_files(location: str, *, tasks: Tasks = HERE) -> int:
    """Merge small files into files of Delta's target size, in one commit; return how many were merged.

    Landings may go on: the commit adds no row. Raises `ConflictError` if others keep rewriting the same files.
    """
    what = f"{location}: others keep rewriting its files; run the command again"
    return retried(lambda: _merge_once(TableLog.open(location), tasks), what=what)


def _merge_once(log: TableLog, tasks: Tasks) -> int:
    if not is_ready_for(log, log.schema):  # somebody else's table, with what only deltalake knows
        if changed_among(log.location, (file.path for file in log.added.values() if file.size < _USUAL_TARGET), tasks=tasks):
            return 0  # it would merge them, too
        with delta_errors(log.location):
            return int(opened(log.location).optimize.compact(writer_properties=RAW_FILES)["numFilesRemoved"])
    name = f"part-{uuid4()}"
    merges = list(_planned(log, name))
    # a file whose bytes changed stays as it is, so that `validate` goes on to find it
    among = {file.path for merge in merges for file in merge.files}
    if damaged := changed_among(log.location, among, tasks=tasks):
        merges = list(_planned(log, name, without=damaged))
    if not merges:
        return 0
    with leaving_nothing(log.location, name):
        how = partial(_merged, log.location, log.schema)
        added = tasks.each(how, merges, sizes=[merge.size for merge in merges], sees=[log.location])
    removed = tuple(file for merge in merges for file in merge.files)
    commit = Commit("OPTIMIZE", tuple(file for file in added if file is not None), removed, changes_data=False)
    try:
        committed(log, commit, tasks=tasks)
    except ConflictError:
        for file in commit.added:
            (log.folder / file.path).unlink(missing_ok=True)
        raise
    return len(removed)


def _planned(log: TableLog, name: str, *, without: Collection[str] = ()) -> Iterator[_Merge]:
    """Yield what is merged: files that were written one after the other, since their facts landed so."""
    target = int(log.metadata.configuration.get(_TARGET) or _USUAL_TARGET)
    partitions = defaultdict[tuple[tuple[str, str | None], ...], list[DataFile]](list)
    for file in log.added.values():
        if file.size < target and file.path not in without:
            partitions[tuple(sorted(file.partition.items()))].append(file)
    for _, files in sorted(partitions.items(), key=lambda found: repr(found[0])):
        files.sort(key=lambda file: (file.modified, file.path))
        yield from (_Merge(name, tuple(some)) for some in _together(files, target) if len(some) > 1)


def _together(files: Sequence[DataFile], target: int) -> Iterator[list[DataFile]]:
    some, size = list[DataFile](), 0
    for file in files:
        if some and size + file.size > target:
            yield some
            some, size = [], 0
        some.append(file)
        size += file.size
    yield some


def _merged(location: str, schema: pa.Schema, merge: _Merge) -> DataFile | None:
    """Write the rows of files into a new one, which no commit names yet; None if there are no rows."""
    folder, first = place_of(location), merge.files[0]
    path = str(PurePosixPath(first.path).with_name(f"{merge.name}-{uuid4()}.parquet"))
    columns = pa.schema([field for field in schema if field.name not in first.partition])
    written = write_file(folder / path, (rows for file in merge.files for rows in _rows(location, file, columns)), schema=columns)
    return None if written is None else written.added_as(path, partition=first.partition)


def _rows(location: str, file: DataFile, columns: pa.Schema) -> Iterator[pa.Table]:
    folder = place_of(location)
    hidden = BitMap64() if file.deleted is None else deletion_vectors.read(folder, file.deleted)
    for rows in live(folder / file.path, hidden):
        yield _as_now(rows, columns)


def _as_now(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return rows with the columns, and fields of structs, that came to the table after them."""
    found = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in columns
    ]
    return pa.table(found, schema=columns)
