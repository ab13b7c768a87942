"""Reports of landing and replaying: counts and the first reasons, for people and for exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

SHOWN_REJECTIONS = 5  # per file; the quarantine table has all


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why one event went to quarantine; `line` is 1-based."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """What one call landed of one file.

    Attributes:
        name: The file as the caller named it; `-` for standard input.
        facts: Rows of the landed events in the raw table.
        skipped_bytes: Length of the prefix that had landed before.
        landed_bytes: Length of the part after that prefix that this call finished.
        rejections: The first few quarantined events.
        forgotten: Events that are in part about a forgotten key; quarantine has their place, not their content.
    """

    name: str
    events: int = 0
    facts: int = 0
    quarantined: int = 0
    skipped_bytes: int = 0
    landed_bytes: int = 0
    rejections: tuple[Rejection, ...] = ()
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class LandingReport:
    """What one call of `land` did: one `FileReport` per file, in the given order."""

    table: str
    files: tuple[FileReport, ...] = ()

    def among(self, others: Mapping[int, FileReport]) -> LandingReport:
        """Return the report with `others`, by their index, among its files."""
        mine, number = iter(self.files), len(self.files) + len(others)
        return replace(self, files=tuple(others[n] if n in others else next(mine) for n in range(number)))

    @property
    def events(self) -> int:
        """Events landed."""
        return sum(file.events for file in self.files)

    @property
    def facts(self) -> int:
        """Rows added to the raw table."""
        return sum(file.facts for file in self.files)

    @property
    def quarantined(self) -> int:
        """Events put into quarantine."""
        return sum(file.quarantined for file in self.files)

    @property
    def forgotten(self) -> int:
        """Events that did not land, or not whole, because their key was forgotten."""
        return sum(file.forgotten for file in self.files)

    @property
    def skipped_bytes(self) -> int:
        """Bytes that were landed before."""
        return sum(file.skipped_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What one call of `replay` did.

    Attributes:
        events: Events that decode now and landed.
        facts: Rows of these events in the raw table.
        waiting: Events that are still in quarantine; `rejections` are the first few, with their new reason.
        forgotten: Events of forgotten keys; quarantine no longer has their bytes.
    """

    table: str
    events: int = 0
    facts: int = 0
    waiting: int = 0
    rejections: tuple[Rejection, ...] = ()
    forgotten: int = 0


class Progress(Protocol):
    """Called after every commit. `total_bytes` is None if it is unknown (compressed files)."""

    def __call__(self, file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
        """Show the progress of the file."""


@runtime_checkable
class ReadingProgress(Progress, Protocol):
    """A progress that is also called while a batch is read."""

    def read(self, file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
        """Show how far the file has been read; what the report counts has landed."""
