"""The raw table of a state, and the commit of it that the state covers.

A version number is not enough: a raw table that was restored from a backup, or created again, has the same numbers for other
events. So a state records the Delta id of its raw table, and each of its commits records a *mark*: the raw version that it
covers, a digest of that version's entry in raw's log, and a step that numbers commits at one version. A mark is one integer,
because Delta commits integers together with rows, and Spark commits just one.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from cdc_views.errors import EngineError
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.delta_log import DIGEST_BITS, digest_of
from cdc_views.storage.table_log import TableLog

_STEP_BITS = 11
_VERSION_SHIFT = _STEP_BITS + DIGEST_BITS
_ID_BITS = 63
_MOST = (1 << _ID_BITS) - 1


class MismatchError(EngineError):
    """A table is not as cdc-views left it; nothing was changed."""


class StateChangedError(MismatchError):
    """Somebody else changed the rows of a state; nothing was changed."""


class RawMismatchError(MismatchError):
    """The raw table does not continue the one that a state or a landing recorded; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The raw commit that a state covers."""

    version: int
    entry: int  # the digest of its log entry; 0 if that could not be read
    step: int = 0  # the number of the state's commit at that version, from 0

    @property
    def number(self) -> int:
        """The mark as one integer that orders by version, then step; raises `EngineError` if either is too large."""
        if self.step >> _STEP_BITS:
            raise EngineError(
                f"the state was written {self.step:,} times at version {self.version} of its raw table, and no further commit "
                "can be told from these; build a new one with `cdc-views rebuild`"
            )
        number = (self.version << _VERSION_SHIFT) | (self.entry << _STEP_BITS) | self.step
        if number > _MOST:
            raise EngineError(f"version {self.version} of the raw table is beyond what a state can record")
        return number

    @classmethod
    def of(cls, number: int) -> Mark:
        """Return the mark that Delta keeps as `number`.

        >>> Mark.of(Mark(7, 123, 2).number)
        Mark(version=7, entry=123, step=2)
        """
        entry = (number >> _STEP_BITS) & ((1 << DIGEST_BITS) - 1)
        return cls(number >> _VERSION_SHIFT, entry, number & ((1 << _STEP_BITS) - 1))

    def following(self) -> Mark:
        """Return the mark of the next commit at the same raw version."""
        return Mark(self.version, self.entry, self.step + 1)


def mark_after(mark: Mark | None, raw: TableLog) -> Mark:
    """Return the mark of a commit that covers `raw` at its open version; `mark` is the state's newest."""
    if mark is not None and mark.version >= raw.version:
        if mark.version > raw.version:
            raise ConflictError(f"{raw.location}: another run covers version {mark.version} already")
        return mark.following()
    return Mark(raw.version, entry_digest(raw, raw.version))


def id_digest(raw: TableLog) -> int:
    """Return the digest of a raw table's Delta id, which a state records."""
    return int.from_bytes(sha256(raw.metadata.id.encode()).digest()[:8], "big") & _MOST


def entry_digest(log: TableLog, version: int) -> int:
    """Return a digest, above 0, of a version's log entry; 0 if it is gone."""
    content = log.entry(version)
    return 0 if content is None else digest_of(content)


def why_not_continued(raw: TableLog, version: int, entry: int) -> str:
    """Return why `raw`, at its newest version, does not continue the log with `entry` at `version`; empty if it does."""
    if raw.version < version:
        return f"it ends at version {raw.version}, and had version {version}: it was restored from a backup, or its log was cut"
    now = entry_digest(raw, version)
    if now and entry and now != entry:
        return f"its version {version} is another commit than before: it was restored from a backup and went on from there"
    return ""


def is_continued(raw: TableLog, version: int, entry: int) -> bool:
    """Whether `raw` has `entry` at `version`. Its id may differ: a table can be replaced in place, in one log."""
    return entry != 0 and raw.version >= version and entry_digest(raw, version) == entry
