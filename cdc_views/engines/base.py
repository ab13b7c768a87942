"""The interface between a plan and the engine that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from cdc_views.errors import UnsupportedError
from cdc_views.model.conditions import Condition
from cdc_views.model.strategy import Strategy
from cdc_views.model.style import Style
from cdc_views.model.user_statements import UserStatement
from cdc_views.plan.build import Ask, of_raw
from cdc_views.plan.compact import Step
from cdc_views.plan.nodes import Node
from cdc_views.plan.parts import FileSet, Part, Parts, Source
from cdc_views.plan.purge import KnownBy
from cdc_views.plan.rewrites import Choice, choose
from cdc_views.plan.state_and_tail import StateAndTail
from cdc_views.plan.where import parse_where
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.relation import RawTable

if TYPE_CHECKING:
    from cdc_views.engines.serving import ServingWrite
    from cdc_views.storage.places import Place

WRITE_IT = "write it to a file or a table: `query --out rows.parquet` or `query --into TABLE`, in Python `table.write(out=…)`"
"""The remedy for an answer that is too large for this process."""
BATCH_ROWS = 10_000
"""Rows that are handed on at a time."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a raw table's facts, if a read does not take its newest version.

    Attributes:
        raw_version: The version of the raw table that the facts are equal to.
        parts: The files of the facts, and the files that show which facts do not count (rule M2).
        is_raw: The facts are the whole raw table at that version, without rows that deletion vectors hide.
        state: The location of the state that has the facts of `parts` but for the tail; empty for none.
        state_version: The version of the state.
        hidden: The state's files of which a deletion vector hides rows.
        in_layout: Files known to have exactly the columns of the relation's layout, so that no reader opens them to learn it.
        bucket: Binary digits: only facts of partitions whose digest begins so count, and facts about the whole table.
    """

    raw: RawTable
    raw_version: int
    parts: Parts = field(default_factory=Parts)
    is_raw: bool = False
    state: str = ""
    state_version: int = 0
    hidden: tuple[DataFile, ...] = ()
    in_layout: frozenset[str] = frozenset()
    bucket: str = ""

    def is_of_state(self, path: str) -> bool:
        """Return whether a file is one of the state, and not one of raw."""
        return bool(self.state) and path.startswith(f"{self.state.rstrip('/')}/")

    def paths(self, source: Source = Source.ALL) -> tuple[str, ...]:
        """Return the files of a source."""
        return self.parts.of(source).paths

    @property
    def late_by(self) -> KnownBy | None:
        """How to recognize late facts of the tail, or of raw (rule M2); None if there can be none."""
        if self.is_raw:
            return KnownBy.EVENT if self.parts.has(Source.LATE) else None
        return KnownBy.PARTITION if self.parts.has(Source.TAIL) and self.parts.has(Source.PURGED) else None

    def split(self) -> Parts | None:
        """Return the parts that let a plan keep untouched rows as they are; None without a base, or if a truncate hides it."""
        if not self.parts.has(Source.BASE) or self.parts.of(Source.FRESH).statistics.has_truncates:
            return None
        return self.parts

    def as_runs(self, source: Source, *, tail: FileSet | None = None) -> Sources:
        """Return the same facts with the facts of `source` among the runs (rule M1), and with another tail if one is given."""
        parts = self.parts.as_runs(source)
        return replace(self, parts=parts if tail is None else Parts({**parts.files, Part.TAIL: tail}))


@dataclass(frozen=True, slots=True)
class StateWrite:
    """The files of one commit of a state: the compacted facts of `sources`.

    Attributes:
        target: The location of the state, which exists.
        step: What the commit does; see `plan.compact.Step`.
        digits: The number of binary digits by which the new files are split.
        horizon: Epoch second: a base leaves out what ended at or before it (rule M2); None: nothing.
    """

    sources: Sources
    target: str
    step: Step
    digits: int
    horizon: int | None = None

    @property
    def purges(self) -> bool:
        """Whether parts may leave, or left before and must be remembered (rule M2)."""
        is_base = self.step in (Step.BASE, Step.BUCKETS)
        return is_base and (self.horizon is not None or self.sources.parts.has(Source.PURGED))


@dataclass(frozen=True, slots=True)
class Written:
    """The files that an engine wrote for one commit, and, for a merge, the positions of the rows that they replace, by file.

    `files` are paths within the table. `replaced` has paths as in `Sources`, and positions from 0.
    """

    files: tuple[str, ...]
    replaced: Mapping[str, Iterable[int]] = field(default_factory=dict)


class ValueForm(Enum):
    """The form of the values in the rows of a read."""

    EXACT = "exact"
    """Lossless; `engines.exact.rows_of` turns it into native values."""
    SHOWN = "shown"
    """The types of a view."""
    HELD = "held"
    """Types and names of a serving table (`engines.serving.held_fields`): a view's, under names that Delta and Parquet take."""


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a merged table.

    `as_of` (epoch seconds) is the clock of rule C4 and drops nothing; `landed_as_of` and `written_as_of` (µs) drop facts that
    landed or were written later. `columns` are user names, empty for all; `where` is a boolean expression over the view's
    columns in DuckDB's dialect. `is_ordered` sorts rows as `query` prints them, after `order_by` (user name, whether descending),
    and then leaves `offset` rows out. `sources` None means the raw table's newest
    facts. `is_history` returns versions of rows with their validity (`plan.history`), read from raw alone.
    `form` is that of the values.
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
    is_history: bool = False
    form: ValueForm = ValueForm.EXACT
    order_by: tuple[tuple[str, bool], ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class StatementRead:
    """A user's query over merged tables, in the engine's own SQL.

    `tables` has the full name of the table for each name in the statement (`TableReference.name`), `reads` the read of each
    table by its full name, in form `SHOWN` and without an order.
    """

    statement: UserStatement
    tables: Mapping[str, str]
    reads: Mapping[str, Read]

    def text(self, views: Mapping[str, str]) -> str:
        """Return the statement over views, in SQL by the full name of their table."""
        return self.statement.over({name: views[table] for name, table in self.tables.items()})


@dataclass(frozen=True, slots=True)
class StatementRows:
    """The rows of a statement: its columns, whose names may repeat, and its batches, which come while they are taken."""

    columns: pa.Schema
    batches: Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class FollowedState:
    """A state that a view reads in its newest version, beside the raw facts since a bound.

    `raw_version` is the version of the raw table that the state covered when the bound was taken.
    """

    location: str
    raw_version: int
    reads: StateAndTail


@dataclass(frozen=True, slots=True)
class EventsRead:
    """A view's plan over the events of an external table, which its scans read at `location`; see `sql.external`."""

    location: str
    plan: Node


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view to create.

    `schema` is its namespace (DuckDB schema, Spark database), which is created if missing. Engines whose views name files read
    `sources` instead of the raw table, and engines whose views read states read `followed` beside it. `state` is the prefix of
    the tables of a warehouse's own state; empty for none. `events`: the view reads an external table, and nothing else of this.
    `style`: how its text is written. `catalog` is the one that gets the view; empty for the engine's usual place. `owner` says
    there whose view it is, so that nobody else's is replaced.
    """

    schema: str
    name: str
    raw: RawTable
    strategy: Strategy = Strategy.AUTO
    sources: Sources | None = None
    state: str = ""
    followed: FollowedState | None = None
    events: EventsRead | None = None
    style: Style = Style.PLAIN
    catalog: str = ""
    owner: str = ""


def ask_of(read: Read) -> Ask:
    """Return `read` as an `Ask`."""
    schema = read.raw.relation.shown
    ask = Ask(
        read.raw.relation,
        as_of=read.as_of,
        columns=read.columns,
        where=parse_where(schema, Condition(read.where)) if read.where else None,
        limit=read.limit,
        landed_as_of=read.landed_as_of,
        written_as_of=read.written_as_of,
        is_exact=read.form is ValueForm.EXACT,
        is_ordered=read.is_ordered,
        is_history=read.is_history,
        split=read.sources.split() if read.sources is not None else None,
        order_by=read.order_by if read.is_ordered else (),
        offset=read.offset if read.is_ordered else 0,
    )
    return of_raw(ask) if read.sources is None or read.sources.is_raw else ask


_E = TypeVar("_E", bound="Engine")


class Engine(Protocol):
    """An engine that runs plans: a context manager. No read of `Sources` sees rows that deletion vectors hide."""

    name: str
    writes_files: bool = False
    """It is a `FilesEngine`."""

    def __enter__(self: _E) -> _E:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def read(self, read: Read) -> pa.Table:
        """Return the rows, all of them in memory."""

    def batches(self, read: Read) -> Iterator[pa.RecordBatch]:
        """Yield the rows, some at a time, so that memory does not grow with their number; by default those of `read`.

        Of the forms, every engine takes `EXACT`.
        """
        if read.form is not ValueForm.EXACT:
            told = f"engine {self.name} writes no Parquet"
            raise UnsupportedError(told, remedy="take --format jsonl or csv, or write the view's rows with the engine's own SQL")
        yield from self.read(read).to_batches(max_chunksize=BATCH_ROWS)

    def sql(self, read: Read) -> str:
        """Return the SQL text that `read` runs."""

    def run_statement(self, asked: StatementRead) -> StatementRows:
        """Run a user's query, which reads nothing but `asked.reads`; see `EnginePlugin.statement_dialect`."""
        told = f"engine {self.name} runs no SQL over merged tables by itself"
        raise UnsupportedError(told, remedy="run `cdc-views apply`, and query the views with the engine's own tools")

    def choice(self, read: Read) -> Choice:
        """Return the strategy that `read` takes, with the reason."""
        return choose(read.strategy.value)

    def write_state(self, write: StateWrite) -> Written:
        """Compact facts into new files of a state, without a commit."""

    def write_serving(self, write: ServingWrite) -> None:
        """Replace rows of a serving table, in one commit; raises `ConflictError` if another run committed first."""

    def rows(self, plan: Node, sources: Sources) -> pa.Table:
        """Return the rows of a plan whose scans read `sources`."""

    def spread(self, function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        """Return what a function of a module gives of each task, in order; see `landing.spreading.Spread`.

        An engine with tasks of its own runs them at once, elsewhere, and perhaps more than once each.
        """
        return [function(task) for task in tasks]

    def apply(self, view: ViewDefinition) -> str:
        """Create or replace a view with friendly types; return the executed statement.

        Raises `NoViewsError` if the catalog of `view` takes no views.
        """

    def stale_rows(self, view: ViewDefinition) -> int | None:
        """Return in how many rows the catalog's view differs from what this definition shows; None: the engine cannot tell."""
        return None

    def close(self) -> None:
        """Release the engine's resources."""


class FrameEngine(Engine, Protocol):
    """An engine with lazy results of its own."""

    def frame(self, read: Read) -> Any:  # noqa: ANN401  # of the engine's own package
        """Return what `read` shows as the engine's own data frame: a view's types, columns under the user's names."""


class FilesEngine(Engine, Protocol):
    """An engine whose own tasks write files, several at once; it sets `writes_files`."""

    def write_files(self, read: Read, folder: Place) -> list[Place]:
        """Write the rows, in form `HELD`, as Parquet files into a folder that is not there yet; return the files.

        Raises `UnsupportedError` if tasks do not see what this process sees there.
        """


@dataclass(frozen=True, slots=True)
class Followed:
    """A table to follow: the location of its raw table, the folder of the stream's checkpoint, the function to run."""

    name: str
    location: str
    checkpoint: str
    run: Callable[[], None]


class StreamingEngine(Engine, Protocol):
    """An engine with streams over raw tables."""

    def follow(self, followed: Iterable[Followed], *, interval: str | None, stop: Event) -> None:
        """Run each table after events landed, until `stop` is set; raises `EngineError` if a stream fails.

        `interval`, such as `30 seconds`, is the least time between runs; None: process all landed events, then return.
        """
