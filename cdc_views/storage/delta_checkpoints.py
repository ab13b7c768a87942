"""Checkpoints in Delta's log: the data files of a version, in one file, in several parts, or in files beside (sidecars).

deltalake writes one file. Spark writes parts where a setting says so, and sidecars where a table has v2 checkpoints.
Source: Delta's protocol, "Checkpoints".
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.errors import EngineError
from cdc_views.storage.places import Place, arrow_source

_NAME = re.compile(r"(?P<version>\d{20})\.checkpoint(\.\d{10}\.(?P<parts>\d{10})|\.(?P<unique>[\w-]{36}))?\.(parquet|json)")
_SIDECARS = "_sidecars"
Action = dict[str, Any]


def checkpointed(log: Place, version: int) -> tuple[int, list[Action]]:
    """Return the version of the newest checkpoint up to `version`, and its `add` actions; -1 if there is none.

    Raises `EngineError` if the checkpoint cannot be read.
    """
    complete = _complete(log)
    newest = max((found for found in complete if found[0] <= version), default=None)
    if newest is None:
        return -1, []
    added: list[Action] = []
    for path in complete[newest]:
        try:
            added += _added(path)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise EngineError(f"{path} cannot be read: {error}") from error
    return newest[0], added


def _complete(log: Place) -> dict[tuple[int, int, str], list[Place]]:
    """Return the files of each checkpoint: by version, the number of parts, and a name. One that lacks parts is none."""
    found: dict[tuple[int, int, str], list[Place]] = defaultdict(list)
    for path in log.iterdir():
        if name := _NAME.fullmatch(path.name):
            found[int(name["version"]), int(name["parts"] or 1), name["unique"] or ""].append(path)
    return {kind: sorted(paths) for kind, paths in found.items() if len(paths) == kind[1]}


def _added(path: Place) -> Iterator[Action]:
    if path.suffix == ".json":
        actions: list[Action] = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    else:
        with pq.ParquetFile(arrow_source(path)) as file:
            names = {"add", "sidecar"} & set(file.schema_arrow.names)
            actions = file.read(columns=sorted(names)).to_pylist(maps_as_pydicts="strict")
    for action in actions:
        if action.get("add"):
            yield action["add"]
        if action.get("sidecar"):
            yield from _added(path.parent / _SIDECARS / PurePosixPath(unquote(action["sidecar"]["path"])).name)
