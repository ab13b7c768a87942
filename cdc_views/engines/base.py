"""The seam between a plan and where it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from cdc_views.model.strategy import Strategy
from cdc_views.plan.compact import BASE, OVERLAY
from cdc_views.plan.late import KnownBy
from cdc_views.plan.nodes import Node
from cdc_views.plan.reduction import Split
from cdc_views.storage.relation import RawTable

if TYPE_CHECKING:
    from cdc_views.engines.serving import ServingWrite


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the facts of a raw table are read from, when not from the raw table at its newest version.

    Attributes:
        raw: The raw table they belong to.
        raw_version: Its version that they amount to.
        state: Location of the state, empty for none, and its version.
        base: Files of the state's base, in which each key occurs once.
        plain: Those of them that hold rows which show what is stored, whatever the clock says.
        overlay: Files of the state's overlay: rows that stand in for the base's of the same keys.
        overlay_plain: As `plain`, of the overlay.
        runs: Further files of the state.
        tail: Files of the raw table that the state does not cover.
        is_raw: All of the raw table at that version, and nothing else; deletion vectors count.
        is_fresh_small: Whether the keys of runs and tail fit into each worker's memory.
        are_fresh_rows_small: Whether all that runs and tail say of their rows does, too.
        is_overlay_small: As `is_fresh_small`, of the overlay.
        has_scopes: Whether runs or tail may hold facts about more than a row: deletions of ranges and partitions, statics.
        has_old_scopes: As `has_scopes`, of base and overlay.
        has_truncates: Whether runs or tail may hold deletions of the whole table, so that no row of the base stays.
        is_fresh_newer: Whether all in runs and tail is known to have been written after all in base and overlay.
        purged: Files of what the state's partitions have purged; tables that purge nothing have none.
        late: Files of the facts that landed late; with `is_raw` alone, where they do not count.
        covered: File that says which rows of `base`, by their places, `overlay` stands in for; empty where none does.
    """

    raw: RawTable
    raw_version: int
    state: str = ""
    state_version: int = -1
    base: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    overlay: tuple[str, ...] = ()
    overlay_plain: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    is_raw: bool = False
    is_fresh_small: bool = True
    are_fresh_rows_small: bool = True
    is_overlay_small: bool = True
    has_scopes: bool = True
    has_old_scopes: bool = True
    has_truncates: bool = False
    is_fresh_newer: bool = False
    purged: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    covered: str = ""

    @property
    def late_by(self) -> KnownBy | None:
        """How facts of the tail, or of raw, that are late are known (rule M2); None where none can be."""
        if self.is_raw:
            return KnownBy.EVENT if self.late else None
        return KnownBy.PARTITION if self.tail and self.purged else None

    @property
    def split(self) -> Split | None:
        """How the facts are split; None where there is no base, or nothing of it is known to stay."""
        if not self.base or self.has_truncates:
            return None
        return Split(
            has_fresh=bool(self.runs + self.tail),
            is_fresh_small=self.is_fresh_small,
            are_fresh_rows_small=self.are_fresh_rows_small,
            has_scopes=self.has_scopes,
            has_old_scopes=self.has_old_scopes,
            has_plain=bool(self.plain),
            has_judged=len(self.plain) < len(self.base),
            has_overlay_plain=bool(self.overlay_plain),
            has_overlay_judged=len(self.overlay_plain) < len(self.overlay),
            is_overlay_small=self.is_overlay_small,
            is_fresh_newer=self.is_fresh_newer,
        )

    def split_for(self, *, leaves_out_covered: bool) -> Split | None:
        """Return how the facts are split for an engine that may leave out the rows that `covered` says."""
        split = self.split
        return split and replace(split, are_covered_left_out=leaves_out_covered and bool(self.covered))

    @property
    def judged(self) -> tuple[str, ...]:
        """Files of the base whose facts the clock decides about, or that are no rows."""
        return _without(self.base, self.plain)

    @property
    def overlay_judged(self) -> tuple[str, ...]:
        """As `judged`, of the overlay."""
        return _without(self.overlay, self.overlay_plain)

    @property
    def others(self) -> tuple[str, ...]:
        """All but `plain` and `overlay_plain`: only in these are facts that are about no row alone."""
        return self.judged + self.overlay_judged + self.runs + self.tail

    def as_runs(self) -> Sources:
        """Return the same facts with those of the overlay among the runs, which they may be by rule M1."""
        return replace(self, overlay=(), overlay_plain=(), runs=self.overlay + self.runs, is_fresh_newer=False, covered="")

    @property
    def files(self) -> tuple[str, ...]:
        """All of them."""
        return self.base + self.overlay + self.runs + self.tail


def _without(files: tuple[str, ...], some: tuple[str, ...]) -> tuple[str, ...]:
    left_out = set(some)
    return tuple(file for file in files if file not in left_out)


@dataclass(frozen=True, slots=True)
class StateWrite:
    """One commit of a state: the facts of `sources`, compacted, appended to it or in place of what it had.

    Attributes:
        sources: What to reduce.
        target: Location of the state, which exists, and the version of it that this builds on.
        version: See `target`.
        prefix: First letter of the new files' `_part`.
        digits: How finely the new files are split by partition key.
        replaced: First letters of `_part` of the files that these replace; empty to append.
        transaction: Name and number that the commit records.
        horizon: Of a base: seconds since the epoch; what ended at or before it is left out (rule M2). None: nothing is.
        keeps_late: Of several letters replaced: late facts are not.
    """

    sources: Sources
    target: str
    version: int
    prefix: str
    digits: int
    replaced: str
    transaction: tuple[str, int]
    horizon: int | None = None
    keeps_late: bool = False

    @property
    def is_base(self) -> bool:
        """Whether `sources` are all facts there are, so that the result is a base."""
        return self.prefix == BASE

    @property
    def is_overlay(self) -> bool:
        """Whether the result is what stands over the base of `sources`."""
        return self.prefix == OVERLAY

    @property
    def purges(self) -> bool:
        """Whether something may leave, or has left before and must be remembered (rule M2)."""
        return self.is_base and (self.horizon is not None or bool(self.sources.purged))


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a merged table.

    `as_of` (epoch seconds) is the clock of rule C4 and drops nothing; `landed_as_of` and `written_as_of` (µs)
    drop facts landed or written later. `columns` are user names in the wanted order, empty for all; `where` is a
    boolean expression over the view's columns in DuckDB's dialect. `is_ordered` sorts rows as `query` prints them.
    """

    raw: RawTable
    as_of: int
    columns: tuple[str, ...] = ()
    where: str | None = None
    limit: int | None = None
    strategy: Strategy = Strategy.AUTO
    landed_as_of: int | None = None
    written_as_of: int | None = None
    is_ordered: bool = True
    sources: Sources | None = None
    """Read these facts instead of the raw table's newest."""
    is_history: bool = False
    """Rows are versions, with what each is valid from and to (`plan.history`), read from raw alone."""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view to create: its name where it will live, and the table it shows."""

    schema: str
    """Namespace (DuckDB schema, Spark database); created when missing."""
    name: str
    raw: RawTable
    strategy: Strategy = Strategy.AUTO
    sources: Sources | None = None
    """What to read instead of the raw table, by engines whose views name files."""
    state: str = ""
    """What the names of its state's tables begin with, in a warehouse that keeps states itself; empty for none."""


class Engine(Protocol):
    """Somewhere plans run. Close it when done; it is a context manager too."""

    name: str
    leaves_out_covered: bool
    """Whether what reads a base leaves out the rows that `Sources.covered` says."""

    def read(self, read: Read) -> pa.Table:
        """Return the rows in exact form: what `engines.exact.rows_of` turns into native values."""

    def sql(self, read: Read) -> str:
        """Return the SQL text that `read` runs."""

    def write_state(self, write: StateWrite) -> None:
        """Compact facts into a state, in one commit; raises `ConflictError` when somebody else committed first."""

    def write_serving(self, write: ServingWrite) -> None:
        """Compute rows of a serving table and put them in place, in one commit; raises as `write_state` does."""

    def rows(self, plan: Node, sources: Sources) -> pa.Table:
        """Return the rows of a plan whose scans read `sources`."""

    def apply(self, view: ViewDefinition) -> str:
        """Create or replace a view with friendly types; returns the statement that did it."""

    def close(self) -> None:
        """Release what the engine holds."""
