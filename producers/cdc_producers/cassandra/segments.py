"""Commit log segments that a node leaves in `cdc_raw`: how far each may be read, and what happens after it has landed."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_producers.cassandra.options import After
from cdc_producers.cassandra.remembered import note_let_go
from cdc_views.errors import TransientError
from cdc_views.landing.targets import ProducerLog
from cdc_views.model.extras import needs

if TYPE_CHECKING:
    from cdc_producers.metrics import Health

_LOG = re.compile(r"CommitLog-\d+-(\d+)\.log\Z")
_INDEX_ENDS = "_cdc.idx"
_COMPLETED = "COMPLETED"
WHOLE = (1 << 31) - 1
"""Past the end of any segment: positions in one have 31 bits."""
_PART = "cdc_raw"
_ARCHIVE_PART = "archive"


@dataclass(frozen=True, slots=True)
class Segment:
    """The current state of a segment.

    Attributes:
        id: Ascends over all segments of a node, even after restarts.
        limit: How far it is safely on disk; None if the index is missing or empty, as while it is rewritten.
        is_complete: Whether the node has finished it.
        synced: When its index was written, epoch seconds; 0 without an index.
    """

    id: int
    log: Path
    limit: int | None = None
    is_complete: bool = False
    synced: float = 0.0


def index_of(log: Path) -> Path:
    """Return the path of a segment's index, which records how far the segment may be read."""
    return log.with_name(log.name.removesuffix(".log") + _INDEX_ENDS)


def segments_in(folder: Path) -> list[Segment]:
    """Return the segments of a folder, oldest first; raises `TransientError` if the folder cannot be read."""
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
    """Return the bytes of a folder's segments, which count against `cdc_total_space`."""
    total = 0
    for path in folder.glob("CommitLog-*.log"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


@dataclass
class AfterLanding:
    """The deletion or archiving of segments after everything in them is committed, never before.

    Attributes:
        archive: A folder or a URL of fsspec, if `after` is archive.
        node: Name of this node's folder in the archive.
        work_folder: Where it is noted that a segment was removed (`has_let_go`).
    """

    after: After
    archive: str
    node: str
    log: ProducerLog
    health: Health
    work_folder: Path
    _waiting: list[Path] = field(default_factory=list)
    _is_near: bool = False

    def __post_init__(self) -> None:
        """Raise `MissingExtraError` at the start, not at the first segment to archive."""
        if self.after is After.ARCHIVE:
            with needs("`--after archive`", extra="producers"):
                import fsspec  # noqa: F401

    def add(self, log: Path) -> None:
        """Take a segment that has wholly landed."""
        if self.after is not After.KEEP and log not in self._waiting:
            self._waiting.append(log)

    def run(self) -> None:
        """Act on the waiting segments; one that the archive does not accept stays and is tried again."""
        while self._waiting:
            log = self._waiting[0]
            try:
                if self.after is After.ARCHIVE and log.exists():
                    self._put(log)
            except Exception as error:  # any error of a file system of fsspec
                # leave out parts of the URL that may be secret
                place = self.archive.partition("?")[0].rpartition("@")[2]
                message = (
                    f"{log.name} cannot be archived to {place}: {type(error).__name__}: {error}; it stays, and is tried again"
                )
                if self.health.troubles.get(_ARCHIVE_PART) != message:
                    self.log.warning(message, part=_ARCHIVE_PART)
                self.health.set(_ARCHIVE_PART, message)
                return
            self.health.set(_ARCHIVE_PART, "")
            note_let_go(self.work_folder)
            # the index goes last: without it, the segment would look empty
            log.unlink(missing_ok=True)
            index_of(log).unlink(missing_ok=True)
            self._waiting.pop(0)

    def _put(self, log: Path) -> None:
        import fsspec

        files, root = fsspec.core.url_to_fs(self.archive)
        folder = f"{root.rstrip('/')}/{self.node}"
        files.makedirs(folder, exist_ok=True)
        for path in (index_of(log), log):
            if path.exists():
                to, size = f"{folder}/{path.name}", path.stat().st_size
                # an existing copy of the right size is good: a landed segment never changes
                if not files.exists(to) or files.size(to) != size:
                    files.put_file(str(path), to)
                    if files.size(to) != size:
                        raise OSError(f"{to} has {files.size(to):,} of {size:,} bytes")

    def watch(self, folder: Path, total: int, warns_at: float) -> int:
        """Return the bytes that count against `cdc_total_space`, and warn when it is nearly full."""
        held = held_bytes(folder)
        is_near = total > 0 and held >= total * warns_at
        if is_near:
            message = (
                f"{folder} holds {held >> 20:,} MiB of the {total >> 20:,} MiB of cdc_total_space; once it is full the node "
                "refuses writes (or deletes what has not landed, with cdc_block_writes: false); let this agent land, or raise it"
            )
            if not self._is_near:
                self.log.warning(message, part=_PART, held=held, total=total)
            self.health.set(_PART, message)
        elif self._is_near:
            self.health.set(_PART, "")
            self.log.info(f"{folder} holds {held >> 20:,} MiB of {total >> 20:,} MiB again", part=_PART)
        self._is_near = is_near
        return held


def set_aside(log: Path, folder: Path) -> Path:
    """Copy a segment that could not be read wholly; return the copy's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (log, index_of(log)):
        if path.exists() and not (folder / path.name).exists():
            beside = folder / f"{path.name}.part"
            shutil.copyfile(path, beside)
            beside.replace(folder / path.name)
    return folder / log.name
