"""Keeps Delta's log small: writes checkpoints only as often as they pay, and removes those that nobody reads.

A checkpoint names every file of its version, and every transaction id. Delta writes one after a fixed number of commits, so
that their total size grows with the square of the commits. Here a checkpoint is due once the commits since the last one reach
a share of its actions. So the total grows linearly with the commits, and a read replays a few percent.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path

from cdc_views.storage.delta_log import LOG
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.places import Place, place_of

SHARE = 100  # reading a commit takes about as long as reading a hundred actions of a checkpoint
MOST_COMMITS = 400  # between two checkpoints; it takes a tenth of a second to read them
IN_USE_SECONDS = 3600.0  # remove only files that were replaced longer ago: readers may still use younger ones
_USUAL = 100
_INTERVAL = "delta.checkpointInterval"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_VERSION = re.compile(r"(\d{20})\.")
_COMMIT = re.compile(r"(\d{20})\.json")


def sum_up(location: str, version: int, configuration: Mapping[str, str]) -> None:
    """Write a checkpoint of a table's version if one is due; call it after the commit of that version."""
    log, every = place_of(location) / LOG, int(configuration.get(_INTERVAL, _USUAL))
    if isinstance(log, Path):
        since, actions = _last_checkpoint(log)
        is_due = version - since >= max(every, min(actions // SHARE, MOST_COMMITS))
    else:
        # each commit is a request, for every reader; and of many writers only one writes this version
        is_due = version > 0 and version % every == 0
    if is_due:
        opened(location, version=version).create_checkpoint()
        for path in superseded(log):
            remove(path)


def _last_checkpoint(log: Place) -> tuple[int, int]:
    """Return the version of the last checkpoint, 0 for none, and the number of its actions."""
    try:
        last = json.loads((log / "_last_checkpoint").read_text("utf-8"))
        return int(last["version"]), int(last["size"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def superseded(log: Place) -> list[Place]:
    """Return the checkpoints that no reader needs: all but the oldest, the newest two, and young ones.

    Readers reach the versions in between from the oldest checkpoint and the commits after it.
    """
    found = _numbered(log, _CHECKPOINT)
    return [found[version] for version in sorted(found)[1:-2] if age(found[version]) > IN_USE_SECONDS]


def beginning(log: Place, *, floor: int, seconds: float) -> int | None:
    """Return the version with a checkpoint at which the log may start; None if nothing can be cut.

    Version `floor` and all later versions stay readable. Only entries older than `seconds` are cut.
    """
    commits, checkpoints = _numbered(log, _COMMIT), _numbered(log, _CHECKPOINT)
    wanted = [v for v in checkpoints if v <= floor and v in commits and age(commits[v]) > seconds]
    best = max(wanted, default=None)
    return best if best is not None and any(version < best for version in {*commits, *checkpoints}) else None


def before(log: Place, version: int) -> list[Place]:
    """Return the log entries and checkpoints of versions before `version`."""
    return sorted(path for path in log.iterdir() if (found := _VERSION.match(path.name)) and int(found[1]) < version)


def _numbered(log: Place, kind: re.Pattern[str]) -> dict[int, Place]:
    return {int(found[1]): path for path in log.iterdir() if (found := kind.fullmatch(path.name))}


def age(path: Place) -> float:
    """Return the seconds since a file was written; 0 if another process removed the file."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def remove(path: Place) -> None:
    """Remove an entry or a checkpoint, if it is still there, and Spark's checksum beside it."""
    path.unlink(missing_ok=True)
    if isinstance(path, Path):
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
