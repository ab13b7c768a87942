"""The seam between a plan and where it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from cdc_views.model.conditions import Condition
from cdc_views.model.strategy import Strategy
from cdc_views.plan.build import Ask
from cdc_views.plan.nodes import Node
from cdc_views.plan.parts import FileSet, Part, Parts, Source
from cdc_views.plan.purge import KnownBy
from cdc_views.plan.where import parse_where
from cdc_views.storage.relation import RawTable

if TYPE_CHECKING:
    from typing_extensions import Self

    from cdc_views.engines.serving import ServingWrite


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the facts of a raw table are read from, when not from the raw table at its newest version.

    Attributes:
        raw: The raw table.
        raw_version: The version of it that the facts amount to.
        parts: The files that hold them, and those that say which facts do not count (rule M2).
        is_raw: Whether the facts are all of the raw table at that version; deletion vectors count.
    """

    raw: RawTable
    raw_version: int
    parts: Parts = field(default_factory=Parts)
    is_raw: bool = False

    def paths(self, source: Source = Source.ALL) -> tuple[str, ...]:
        """Return the files of a source, by default of all facts."""
        return self.parts.of(source).paths

    @property
    def late_by(self) -> KnownBy | None:
        """By what late facts of the tail, or of raw, are known (rule M2); None where there can be none."""
        if self.is_raw:
            return KnownBy.EVENT if self.parts.has(Source.LATE) else None
        return KnownBy.PARTITION if self.parts.has(Source.TAIL) and self.parts.has(Source.PURGED) else None

    @property
    def covered(self) -> str:
        """The file that says which rows of the base the overlay replaces; empty for none."""
        return next(iter(self.parts.of([Part.COVERED]).paths), "")

    def split(self, *, leaves_out_covered: bool = False) -> Parts | None:
        """Return the parts by which a plan may leave rows as they are; None without a base, or where a truncate hides it.

        `leaves_out_covered`: the reader leaves out the rows that `covered` lists, so that the plan need not.
        """
        if not self.parts.has(Source.BASE) or self.parts.of(Source.FRESH).statistics.has_truncates:
            return None
        return self.parts if leaves_out_covered else self.parts.without(Part.COVERED)

    def as_runs(self, source: Source, *, tail: FileSet | None = None) -> Sources:
        """Return the same facts with those of `source` among the runs (rule M1), and with another tail if one is given."""
        parts = self.parts.as_runs(source)
        return replace(self, parts=parts if tail is None else Parts({**parts.files, Part.TAIL: tail}))


@dataclass(frozen=True, slots=True)
class StateWrite:
    """One commit of a state: the facts of `sources`, compacted, appended to it or in place of what it had.

    Attributes:
        sources: What to reduce.
        target: Location of the state, which exists.
        into: What to write: `RUN`; `OVERLAY`, to replace rows of the base of `sources`; or `BASE`, of all facts there are.
        digits: How finely the new files are split by partition key.
        replaced: The parts whose files these replace; empty to append.
        horizon: Of a base: seconds since the epoch; what ended at or before it is left out (rule M2). None: nothing is.
        version: The version of the state that this builds on.
        transaction: Name and number that the commit records.
    """

    sources: Sources
    target: str
    into: Part
    digits: int
    replaced: frozenset[Part] = frozenset()
    horizon: int | None = None
    version: int = 0
    transaction: tuple[str, int] = ("", 0)

    @property
    def purges(self) -> bool:
        """Whether something may leave, or has left before and must be remembered (rule M2)."""
        return self.into is Part.BASE and (self.horizon is not None or self.sources.parts.has(Source.PURGED))


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


def ask_of(read: Read, *, leaves_out_covered: bool = False) -> Ask:
    """Return what `read` asks for, in exact form; see `Sources.split` for `leaves_out_covered`."""
    schema = read.raw.relation.shown
    return Ask(
        read.raw.relation,
        as_of=read.as_of,
        columns=read.columns,
        where=parse_where(schema, Condition(read.where)) if read.where else None,
        limit=read.limit,
        landed_as_of=read.landed_as_of,
        written_as_of=read.written_as_of,
        is_exact=True,
        is_ordered=read.is_ordered,
        is_history=read.is_history,
        split=read.sources.split(leaves_out_covered=leaves_out_covered) if read.sources is not None else None,
    )


class Engine(Protocol):
    """Somewhere plans run. Close it when done; it is a context manager too."""

    name: str
    leaves_out_covered: bool
    """Whether what reads a base leaves out the rows that `Sources.covered` lists."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

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


@dataclass(frozen=True, slots=True)
class Followed:
    """A table whose stream is looked at: its raw table, the folder of the stream's checkpoint, what to run."""

    name: str
    location: str
    checkpoint: str
    run: Callable[[], None]


class StreamingEngine(Engine, Protocol):
    """An engine with streams over raw tables."""

    def follow(self, followed: Iterable[Followed], *, interval: str | None, stop: Event) -> None:
        """Run each table whenever something has landed, until `stop` is set.

        `interval`, such as `30 seconds`, is how often at most; None: until all that has landed is taken in.
        Raises `EngineError` where a stream fails.
        """
