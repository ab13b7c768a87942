"""The data files of a version of a Delta table, as its log tells of them: one `DataFile` for each `add` action.

A table may have a hundred thousand. So a checkpoint's actions are read by columns, each of which turns into Python values at
once: a dict for each action would take ten times as long, and the memory of all of them.
Source: Delta's protocol, "Add File and Remove File", "Per-file Statistics".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.errors import EngineError
from cdc_views.storage.deletion_vectors import DeletionVector
from cdc_views.storage.places import Place, arrow_source

ADDED_FIELDS = ("path", "partitionValues", "size", "modificationTime", "stats", "tags", "deletionVector")
"""The fields of an `add` action that a `DataFile` is made of."""
_USUAL = re.compile(r'{"numRecords":(\d+)[,}]')
"""The beginning of statistics as every writer known to us writes them; parsing them whole takes ten times as long."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of one version: its path within the table, bytes, time of writing (ms), and what else the log tells.

    `told` are its rows with the deleted ones, None where the log does not tell them; `stats` is JSON, which
    each writer spells in its own way.
    """

    path: str
    partition: Mapping[str, str | None]
    size: int
    told: int | None
    modified: int
    tags: Mapping[str, str] = field(default_factory=dict)
    deleted: DeletionVector | None = None
    stats: str = field(default="", compare=False)

    @classmethod
    def of(cls, add: Mapping[str, Any]) -> DataFile:
        """Return the file of an `add` action."""
        vector, stats = add.get("deletionVector"), add.get("stats")
        return cls(
            unquote(add["path"]),
            add.get("partitionValues") or {},
            int(add["size"]),
            _rows_told(stats),
            int(add["modificationTime"]),
            add.get("tags") or {},
            None if vector is None else DeletionVector.of(vector),
            stats or "",
        )

    @property
    def rows(self) -> int:
        """The number of rows, deleted ones too, of a file that `counted` returned, or that this process wrote."""
        assert self.told is not None, f"the rows of {self.path} were not counted"
        return self.told

    @property
    def live(self) -> int:
        """The number of rows that are not deleted."""
        return self.rows - (0 if self.deleted is None else self.deleted.cardinality)

    def at(self, location: str) -> str:
        """Return the file's path, given its table's location. Nothing else spells it, so that equal files have equal paths."""
        return located(location, self.path)

    def without(self, deleted: DeletionVector | None) -> DataFile:
        """Return the same file with another deletion vector; bounds in its statistics would no longer be tight."""
        return replace(self, deleted=deleted, stats="")


def located(location: str, path: str) -> str:
    """Return the path or URL of a data file; `path` is within the table, or a whole one as in a shallow clone."""
    return path if "://" in path else f"{location.rstrip('/')}/{path}"


def _rows_told(stats: str | None) -> int | None:
    if usual := _USUAL.match(stats or ""):
        return int(usual[1])
    rows = json.loads(stats).get("numRecords") if stats else None
    return None if rows is None else int(rows)


def files_in(adds: pa.StructArray) -> Iterator[DataFile]:
    """Yield the files of the `add` actions of a checkpoint, of which none is null."""
    names = {child.name for child in adds.type}
    nothing = pa.nulls(len(adds))

    def values(name: str) -> Sequence[Any]:
        found = adds.field(name) if name in names else nothing
        return _maps(found) if pa.types.is_map(found.type) else found.to_pylist()

    for path, partition, size, modified, stats, tags, vector in zip(*map(values, ADDED_FIELDS), strict=True):
        deleted = None if vector is None else DeletionVector.of(vector)
        yield DataFile(unquote(path), partition or {}, size, _rows_told(stats), modified, tags or {}, deleted, stats or "")


def _maps(array: pa.MapArray) -> list[dict[str, Any]]:
    ends = array.offsets.to_pylist()
    pairs = list(zip(array.keys.to_pylist(), array.items.to_pylist(), strict=True))
    return [dict(pairs[start:end]) for start, end in pairwise(ends)]


def after_commits(before: Mapping[str, DataFile], commits: Iterable[Iterable[Mapping[str, Any]]]) -> Mapping[str, DataFile]:
    """Return path within the table → file, for each data file after commits; `before` are those of a checkpoint."""
    found = dict(before)
    for actions in commits:
        # one commit may remove a file and add it again, with another deletion vector
        for action in actions:
            if "remove" in action:
                found.pop(unquote(action["remove"]["path"]), None)
        for file in (DataFile.of(action["add"]) for action in actions if "add" in action):
            found[file.path] = file
    return found


def counted(folder: Place, files: Iterable[DataFile]) -> tuple[DataFile, ...]:
    """Return files of the table in `folder` by path, each with its rows; opens those of which the log does not tell them."""
    ordered = sorted(files, key=lambda file: file.path)
    return tuple(file if file.told is not None else replace(file, told=_count(folder / file.path)) for file in ordered)


def _count(file: Place) -> int:
    try:
        return int(pq.read_metadata(arrow_source(file)).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise EngineError(f"{file} is gone or damaged: {error}") from error
