"""What landing and replaying did: counts and the first reasons, for people and for exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

SHOWN_REJECTIONS = 5
"""Rejections a report keeps of each file; all are in the quarantine table."""


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
        events: Events landed by this call.
        facts: Rows those events made in the raw table.
        quarantined: Events this call put into quarantine.
        skipped_bytes: Length of the prefix that an earlier call had landed.
        landed_bytes: Length of what this call read past that prefix and is done with.
        rejections: The first few quarantined events.
        forgotten: Events with something about a forgotten key; quarantine has where they were, not what they said.
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
    """What one call of `land` did; one `FileReport` a file, in the order given."""

    table: str
    files: tuple[FileReport, ...] = ()

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
        """Events that did not land, or not whole, since their key was forgotten."""
        return sum(file.forgotten for file in self.files)

    @property
    def skipped_bytes(self) -> int:
        """Bytes that were landed before."""
        return sum(file.skipped_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What one call of `replay` did.

    Attributes:
        table: The table's full name.
        events: Events that decode now and were landed.
        facts: Rows those events made in the raw table.
        waiting: Events still in quarantine.
        rejections: The first few of those, with their reason as of now.
        forgotten: Events of forgotten keys; their bytes were removed from quarantine.
    """

    table: str
    events: int = 0
    facts: int = 0
    waiting: int = 0
    rejections: tuple[Rejection, ...] = ()
    forgotten: int = 0


class Progress(Protocol):
    """Called after every commit. `total_bytes` is None where it is not known (compressed files)."""

    def __call__(self, file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
        """Show how far the file is."""
