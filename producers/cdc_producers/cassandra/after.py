"""What becomes of a segment that has landed: deleted, moved to an archive, or kept; and how full `cdc_raw` is."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_producers.cassandra.options import After
from cdc_producers.cassandra.segments import held_bytes, index_of, note_let_go
from cdc_views.landing.targets import ProducerLog
from cdc_views.model.extras import needs

if TYPE_CHECKING:
    from cdc_producers.metrics import Health

_PART = "cdc_raw"
_ARCHIVE_PART = "archive"


@dataclass
class AfterLanding:
    """Acts on segments once everything in them is committed, never before.

    Attributes:
        after: What to do.
        archive: A folder, or a URL that fsspec knows; used where `after` is archive.
        node: The archive's folder of this node.
        work_folder: Where it is noted that a segment was let go (`has_let_go`).
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
        """Raise `MissingExtraError` at the start, not when the first segment is to be archived."""
        if self.after is After.ARCHIVE:
            with needs("`--after archive`", extra="producers"):
                import fsspec  # noqa: F401

    def add(self, log: Path) -> None:
        """Take a segment, all of which has landed."""
        if self.after is not After.KEEP and log not in self._waiting:
            self._waiting.append(log)

    def run(self) -> None:
        """Act on what waits; a segment that an archive does not take stays, and is tried again."""
        while self._waiting:
            log = self._waiting[0]
            try:
                if self.after is After.ARCHIVE and log.exists():
                    self._put(log)
            except Exception as error:  # whatever a file system of fsspec raises
                message = (
                    f"{log.name} cannot be archived to {_place(self.archive)}: {type(error).__name__}: {error}; it stays, and is "
                    "tried again"
                )
                if self.health.troubles.get(_ARCHIVE_PART) != message:
                    self.log.warning(message, part=_ARCHIVE_PART)
                self.health.set(_ARCHIVE_PART, message)
                return
            self.health.set(_ARCHIVE_PART, "")
            note_let_go(self.work_folder)
            # the index goes last: a segment without one looks as if nothing were in it yet
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
                _put_whole(files, path, f"{folder}/{path.name}")

    def watch(self, folder: Path, total: int, warns_at: float) -> int:
        """Return the bytes that count against `cdc_total_space`, and say so when it is nearly full."""
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


def _put_whole(files: Any, path: Path, to: str) -> None:
    """Copy a file; one that is there with the right size is as good, for a segment that has landed never changes."""
    size = path.stat().st_size
    if not files.exists(to) or files.size(to) != size:
        files.put_file(str(path), to)
        if files.size(to) != size:
            raise OSError(f"{to} has {files.size(to):,} of {size:,} bytes")


def _place(url: str) -> str:
    """The archive without what may be a secret in its URL."""
    return url.partition("?")[0].rpartition("@")[2]


def set_aside(log: Path, folder: Path) -> Path:
    """Keep a copy of a segment that could not be read wholly; returns where."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (log, index_of(log)):
        if path.exists() and not (folder / path.name).exists():
            beside = folder / f"{path.name}.part"
            shutil.copyfile(path, beside)
            beside.replace(folder / path.name)
    return folder / log.name
