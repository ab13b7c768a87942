"""The interface of warehouses: engines that keep raw tables, states and views themselves, not as Delta tables in a folder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Protocol

from cdc_views.engines.base import Engine, Read, ViewDefinition
from cdc_views.engines.plugin import EnginePlugin, engine_names, engine_plugin
from cdc_views.formats.base import RawFormat
from cdc_views.storage.relation import RawTable
from cdc_views.storage.relation_read import KeyFacts

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from cdc_views.landing import LandingReport, Progress, ReplayReport
    from cdc_views.landing.denylist import Denylist
    from cdc_views.landing.external import Adaptation
    from cdc_views.landing.external.sinks import SinkColumns
    from cdc_views.project import ProjectConfig
    from cdc_views.storage.places import Place


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of one read: bytes by a dry run, money by the price in the project file; limit None: no limit."""

    reads: int
    money: float
    currency: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class ViewChange:
    """The changes that `apply` would make for one table.

    Attributes:
        change: create, replace or none.
        diff: The unified diff from the deployed to the planned SQL of the view; empty for none.
        schema: Differences of columns, one line each: `+` for an addition, `!` for an impossible change.
        raw_bytes: Logical bytes.
        estimate: The cost of one full read of the view; None if it is not known yet.
    """

    change: str
    diff: str
    schema: tuple[str, ...] = ()
    raw_rows: int = 0
    raw_bytes: int = 0
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The objects of one table in a warehouse; None or empty if they do not exist."""

    raw: str
    raw_rows: int | None
    raw_bytes: int | None
    view: str
    view_state: str
    state: StateStanding | None = None


@dataclass(frozen=True, slots=True)
class StateDefinition:
    """A state to keep in a warehouse; `name` is the prefix of its tables' names.

    `serving` is the name of its serving table (empty for none). `lateness` is the lateness horizon in seconds (rule M2); None:
    nothing leaves.
    """

    name: str
    raw: RawTable
    serving: str = ""
    lateness: int | None = None


@dataclass(frozen=True, slots=True)
class StateStanding:
    """The progress of a state.

    Attributes:
        rows: The number of its facts.
        bytes: Logical bytes.
        landed: The newest landing time that was merged; None before the first run.
        ran_at: The time of the last run; None before the first run.
        facts: A raw table of the state and its tail, which reads take instead of raw.
        is_complete: The state has every column of the schema. Reads skip an incomplete state.
        horizon: Epoch second: what ended at or before it may have left; None: nothing has.
    """

    name: str
    rows: int
    bytes: int
    landed: datetime | None
    ran_at: datetime | None
    facts: str
    is_complete: bool = True
    horizon: int | None = None


@dataclass(frozen=True, slots=True)
class StateRun:
    """The result of one run of a state, or of a dry run.

    Attributes:
        facts: The number of raw facts read, without facts in the overlap that were merged before.
        keys: The number of their rows, partitions and ranges.
        late: The number of raw facts that landed too late (rule M2).
        landed: The newest merged landing time; None if nothing has landed.
        is_full: The run read all of raw; `why` is the reason if the user did not request it.
        is_settled: The run wrote the whole state again, with deletions applied.
        state_rows: The number of facts in the state now; `state_bytes` are their logical bytes.
        served_rows: The number of rows in the serving table now; None without such a table.
        added: New columns and tables, one line each.
        reads: The most bytes that the run would read; None unless it is a dry run.
    """

    facts: int
    keys: int | None
    late: int
    landed: datetime | None
    is_full: bool
    is_settled: bool
    state_rows: int
    state_bytes: int
    served_rows: int | None = None
    why: str = ""
    added: tuple[str, ...] = ()
    reads: int | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sample of partitions: their facts in raw, those of state and tail, and the rows that state and tail show.

    `landed` and `kept` are in the raw layout, with all truncates. `shown` has the form of `Engine.read`; None without partitions.
    """

    partitions: int
    landed: pa.Table
    kept: pa.Table
    shown: pa.Table | None


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a table in a month of 30 days; None: as measured, or by the schema.

    `facts` are in raw at the start; `facts_per_day` includes every replica's copy. A query reads the whole table, and the `share`
    (0 to 1) of its columns. `text_bytes` is the mean width of a text or blob that was not measured.
    """

    rows: int | None = None
    facts: int | None = None
    facts_per_day: int = 100_000
    queries_per_day: int = 100
    runs_per_day: int = 24
    text_bytes: int = 20
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a way of reading a table in a month of 30 days: bytes that queries and runs read, bytes kept, money."""

    way: str
    query_bytes: int
    run_bytes: int
    kept_bytes: int
    query_money: float
    run_money: float
    kept_money: float
    currency: str

    @property
    def money(self) -> float:
        """The total."""
        return self.query_money + self.run_money + self.kept_money


@dataclass(frozen=True, slots=True)
class Measured:
    """Measures of a raw table: facts, bytes, and the bytes that one read of the view takes."""

    facts: int
    bytes: int
    reads: int


class Lands(Protocol):
    """Lands event files in one raw table of a warehouse."""

    def land(self, files: Iterable[str | Path], *, progress: Progress | None = None) -> LandingReport:
        """Append event files; see `cdc_views.landing.land`."""

    def replay(self) -> ReplayReport:
        """Land the quarantined events again; see `cdc_views.landing.replay`."""


class WarehouseEngine(Engine, Protocol):
    """An engine that also makes the tables its views read."""

    def plan(self, view: ViewDefinition) -> ViewChange:
        """Return the changes that `apply` would make, and the cost of a read."""

    def standing(self, view: ViewDefinition) -> Standing:
        """Return the objects of a table."""

    def landing(self, raw: RawTable, format: RawFormat, *, now: datetime, forgotten: Denylist | None) -> Lands:
        """Return a lander of events for a raw table, which is created if missing; `forgotten` as for `land`."""

    def adapt(
        self,
        found: str,
        derived: RawTable,
        format: RawFormat,
        *,
        setting: str,
        names: SinkColumns,
        now: datetime,
        forgotten: Denylist | None,
    ) -> Adaptation:
        """Bring the raw table derived from an external table up to date; see `cdc_views.landing.external.adapt`.

        `names` are the columns of the sink that hold keys and positions of records; `now` is the new rows' landing time.
        """

    def columns(self, found: str) -> pa.Schema:
        """Return the columns of an external table, JSON as Arrow's type of that name. Raises `UsageError` if there is none."""

    def facts_about(self, raw: RawTable, wanted: KeyFacts) -> pa.Table:
        """Return the raw facts that concern a key, in the raw layout. Raises `UsageError` if there is no raw table."""

    def waiting(self, raw: RawTable) -> tuple[int, str]:
        """Return the number of events in a raw table's quarantine, and one reason."""

    def state(self, name: str, raw: RawTable) -> StateStanding | None:
        """Return the progress of a state; None if it does not exist, or nothing was merged into it yet."""

    def late(self, name: str, raw: RawTable) -> tuple[pa.Table, pa.Table]:
        """Return the facts that landed too late for a state, and its `purged` facts, in the raw layout."""

    def sample(self, name: str, read: Read, *, size: int, seed: int | None) -> Sampled:
        """Return at most `size` partitions of a state and of raw; `seed` None chooses others after each run.

        Leaves out partitions that purged anything: their late facts are in raw, but never show (rule M2).
        """

    def materialize(self, state: StateDefinition, *, full: bool = False, dry_run: bool = False) -> StateRun:
        """Bring a state and its serving table up to date; safe to run twice, concurrently, or after a kill.

        Raises `UsageError` if no raw table exists or the tables have another key; `TransientError` if other runs keep
        committing first.
        """


class WarehousePlugin(EnginePlugin):
    """An engine that keeps the raw tables itself. `place` is the form of `warehouse:` for remedies, as `project.dataset`."""

    keeps_tables = True
    place: ClassVar[str]

    @abstractmethod
    def open(self, config: ProjectConfig, *, folder: Place) -> WarehouseEngine:
        """Return the open engine."""

    @abstractmethod
    def raw_location(self, config: ProjectConfig, name: str) -> str:
        """Return the URL of the raw table with this name in the project file."""

    @abstractmethod
    def location_beside(self, keyspace: str, name: str) -> str:
        """Return the URL of a raw table for a project that does not use the warehouse yet."""

    @abstractmethod
    def view_schema(self, config: ProjectConfig) -> str:
        """Return the full name of the namespace of the project's views."""

    @abstractmethod
    def costs(self, config: ProjectConfig, view: ViewDefinition, load: Load, measured: Measured | None) -> Sequence[Cost]:
        """Return the cost of each way of reading the table; `measured` None: by the schema alone."""

    @abstractmethod
    def folder(
        self, config: ProjectConfig, views: Sequence[ViewDefinition], states: Sequence[StateDefinition]
    ) -> Mapping[str, str]:
        """Return SQL files (path → text) that create all objects without this tool and keep `states` up to date."""


def warehouse_plugin(name: str) -> WarehousePlugin | None:
    """Return the warehouse with this name; None if no such engine is installed, or it keeps no tables."""
    found = engine_plugin(name) if name in engine_names() else None
    return found if isinstance(found, WarehousePlugin) else None
