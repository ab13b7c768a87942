"""Checkpoints in Delta's log: the data files of a version, in one file, in several parts, or in files beside (sidecars).

deltalake writes one file. Spark writes parts where a setting says so, and sidecars where a table has v2 checkpoints.
Source: Delta's protocol, "Checkpoints".
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.errors import EngineError
from cdc_views.storage.places import Place, arrow_source

_NAME = re.compile(r"(?P<version>\d{20})\.checkpoint(\.\d{10}\.(?P<parts>\d{10})|\.(?P<unique>[\w-]{36}))?\.(parquet|json)")
_SIDECARS = "_sidecars"
_ABOUT_TABLE = ("txn", "metaData", "protocol")
_ADDED = ("path", "partitionValues", "size", "modificationTime", "stats", "tags", "deletionVector")
_KEPT = 4  # checkpoints whose files are kept in memory
Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The files of one checkpoint."""

    version: int
    parts: int
    unique: str
    places: tuple[Place, ...]

    @property
    def added(self) -> Mapping[str, Action]:
        """Path within the table → `add` action; raises `EngineError` if the checkpoint cannot be read."""
        return _added(self.places, tuple(_stamp(place) for place in self.places))

    def about_table(self) -> list[Action]:
        """Return its actions about the table and not about files; raises `EngineError` if the checkpoint cannot be read."""
        return [action for place in self.places for action in _actions(place, _ABOUT_TABLE)]


def checkpoints_in(places: Iterable[Place]) -> list[Checkpoint]:
    """Return the checkpoints among the files of a log, oldest first. One that lacks parts is none."""
    found: dict[tuple[int, int, str], list[Place]] = defaultdict(list)
    for path in places:
        if name := _NAME.fullmatch(path.name):
            found[int(name["version"]), int(name["parts"] or 1), name["unique"] or ""].append(path)
    return [Checkpoint(*kind, tuple(sorted(found[kind]))) for kind in sorted(found) if len(found[kind]) == kind[1]]


def _stamp(place: Place) -> object:
    status = place.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=_KEPT)
def _added(places: tuple[Place, ...], _stamps: tuple[object, ...]) -> Mapping[str, Action]:
    found: dict[str, Action] = {}
    for place in places:
        for action in _actions(place, ("add", "sidecar")):
            if "add" in action:
                found[unquote(action["add"]["path"])] = action["add"]
            if "sidecar" in action:
                name = PurePosixPath(unquote(action["sidecar"]["path"])).name
                sidecar = place.parent / _SIDECARS / name
                found |= {unquote(one["add"]["path"]): one["add"] for one in _actions(sidecar, ("add",))}
    return MappingProxyType(found)


def _actions(place: Place, kinds: tuple[str, ...]) -> Iterator[Action]:
    try:
        if place.suffix == ".json":
            for line in place.read_text("utf-8").splitlines():
                action: Action = json.loads(line) if line.strip() else {}
                yield from ({kind: action[kind]} for kind in kinds if action.get(kind))
            return
        with pq.ParquetFile(arrow_source(place)) as file:
            columns = file.schema_arrow
            for kind in kinds:
                if kind not in columns.names:
                    continue
                # a checkpoint may repeat all statistics of a file in columns of their own
                of_file = [f"add.{field.name}" for field in columns.field("add").type if field.name in _ADDED]
                found = file.read(columns=of_file if kind == "add" else [kind]).column(kind)
                yield from ({kind: action} for action in found.drop_null().to_pylist(maps_as_pydicts="strict"))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise EngineError(f"{place} cannot be read: {error}") from error
