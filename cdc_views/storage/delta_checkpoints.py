"""Checkpoints in Delta's log: the data files of a version, in one file, in several parts, or in files beside (sidecars).

deltalake writes one file. Spark writes parts where a setting says so, and sidecars where a table has v2 checkpoints.
Source: Delta's protocol, "Checkpoints".
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.errors import EngineError
from cdc_views.storage.data_files import ADDED_FIELDS, DataFile, files_in
from cdc_views.storage.places import Place, arrow_source, stamp_of

_NAME = re.compile(r"(?P<version>\d{20})\.checkpoint(\.\d{10}\.(?P<parts>\d{10})|\.(?P<unique>[\w-]{36}))?\.(parquet|json)")
_SIDECARS = "_sidecars"
_ABOUT_TABLE = ("txn", "metaData", "protocol")
_KEPT = 4  # checkpoints whose actions are kept in memory
Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of one checkpoint."""

    version: int
    parts: int
    unique: str
    places: tuple[Place, ...]

    @property
    def added(self) -> Mapping[str, DataFile]:
        """Path within the table → data file; raises `EngineError` if the checkpoint cannot be read."""
        return _added(self.places, self._stamps)

    @property
    def about_table(self) -> tuple[Action, ...]:
        """Its actions about the table and not about files; raises `EngineError` if the checkpoint cannot be read."""
        return _about_table(self.places, self._stamps)

    @property
    def _stamps(self) -> tuple[Hashable, ...]:
        return tuple(map(stamp_of, self.places))


def checkpoints_in(places: Iterable[Place]) -> list[Checkpoint]:
    """Return the checkpoints among the files of a log, oldest first. One that lacks parts is none."""
    found: dict[tuple[int, int, str], list[Place]] = defaultdict(list)
    for path in places:
        if name := _NAME.fullmatch(path.name):
            found[int(name["version"]), int(name["parts"] or 1), name["unique"] or ""].append(path)
    return [Checkpoint(*kind, tuple(sorted(found[kind]))) for kind in sorted(found) if len(found[kind]) == kind[1]]


@lru_cache(maxsize=_KEPT)
def _about_table(places: tuple[Place, ...], _stamps: tuple[Hashable, ...]) -> tuple[Action, ...]:
    return tuple(action for place in places for action in _actions(place, _ABOUT_TABLE))


@lru_cache(maxsize=_KEPT)
def _added(places: tuple[Place, ...], _stamps: tuple[Hashable, ...]) -> Mapping[str, DataFile]:
    found = {file.path: file for place in places for file in _files(place)}
    for place in places:
        for action in _actions(place, ("sidecar",)):
            name = PurePosixPath(unquote(action["sidecar"]["path"])).name
            found |= {file.path: file for file in _files(place.parent / _SIDECARS / name)}
    return MappingProxyType(found)


def _files(place: Place) -> Iterator[DataFile]:
    if place.suffix == ".json":
        yield from (DataFile.of(action["add"]) for action in _actions(place, ("add",)))
        return
    with _readable(place), pq.ParquetFile(arrow_source(place)) as file:
        if "add" in file.schema_arrow.names:
            # a checkpoint may repeat all statistics of a file in columns of their own
            of_file = [f"add.{field.name}" for field in file.schema_arrow.field("add").type if field.name in ADDED_FIELDS]
            yield from files_in(file.read(columns=of_file).column("add").combine_chunks().drop_null())


def _actions(place: Place, kinds: tuple[str, ...]) -> Iterator[Action]:
    with _readable(place):
        if place.suffix == ".json":
            for line in place.read_text("utf-8").splitlines():
                action: Action = json.loads(line) if line.strip() else {}
                yield from ({kind: action[kind]} for kind in kinds if action.get(kind))
            return
        with pq.ParquetFile(arrow_source(place)) as file:
            found = file.read(columns=[kind for kind in kinds if kind in file.schema_arrow.names])
            for kind in found.column_names:
                actions = found.column(kind).drop_null().to_pylist(maps_as_pydicts="strict")
                yield from ({kind: action} for action in actions)


@contextmanager
def _readable(place: Place) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        raise EngineError(f"{place} cannot be read: {error}") from error
