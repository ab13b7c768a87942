"""The commit log segments that a node leaves in `cdc_raw`, and how far each may be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cdc_views.errors import TransientError

_LOG = re.compile(r"CommitLog-\d+-(\d+)\.log\Z")
_INDEX_ENDS = "_cdc.idx"
_COMPLETED = "COMPLETED"
_LET_GO = "has-let-go"
WHOLE = (1 << 31) - 1
"""Past the end of any segment: positions in one are 31 bits."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as it is now.

    Attributes:
        id: Ascends from segment to segment of a node, over its restarts too.
        log: The file.
        limit: Up to where it is on disk for good; None where the index is missing or empty, as while it is rewritten.
        is_complete: Whether the node has ended it.
        synced: When its index was written, epoch seconds; 0 where it has none.
    """

    id: int
    log: Path
    limit: int | None = None
    is_complete: bool = False
    synced: float = 0.0

    @property
    def index(self) -> Path:
        """The file beside it that says how far it may be read."""
        return index_of(self.log)


def index_of(log: Path) -> Path:
    """Return where the index of a segment's file is."""
    return log.with_name(log.name.removesuffix(".log") + _INDEX_ENDS)


def segments_in(folder: Path) -> list[Segment]:
    """Return the segments of a folder, oldest first; raises `TransientError` where the folder cannot be read."""
    try:
        logs = [(int(found[1]), path) for path in folder.iterdir() if (found := _LOG.match(path.name))]
    except OSError as error:
        raise TransientError(f"{folder}: {error.strerror}; name the node's cdc_raw folder with --cdc-folder") from error
    return [_segment(number, log) for number, log in sorted(logs)]


def _segment(number: int, log: Path) -> Segment:
    index = index_of(log)
    try:
        synced, lines = index.stat().st_mtime, index.read_text("ascii").split()
        limit = int(lines[0])
    except (OSError, ValueError, IndexError):
        return Segment(number, log)
    return Segment(number, log, limit, _COMPLETED in lines[1:2], synced)


def held_bytes(folder: Path) -> int:
    """Return the bytes of the segments in a folder: what counts against `cdc_total_space`."""
    total = 0
    for path in folder.glob("CommitLog-*.log"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def has_let_go(work_folder: Path) -> bool:
    """Whether an agent with this work folder ever deleted or archived a segment: `cdc_raw` may lack what a table needs."""
    return (work_folder / _LET_GO).exists()


def note_let_go(work_folder: Path) -> None:
    """Note that a segment is about to be deleted; see `has_let_go`."""
    if not has_let_go(work_folder):
        work_folder.mkdir(parents=True, exist_ok=True)
        (work_folder / _LET_GO).touch()
