"""The seam to a warehouse: an engine that keeps raw tables, states and views itself, and not as Delta tables of a folder."""

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

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from cdc_views.landing import LandingReport, Progress, ReplayReport
    from cdc_views.landing.denylist import Denylist
    from cdc_views.landing.external import Adaptation
    from cdc_views.landing.external.sinks import SinkColumns
    from cdc_views.project import ProjectConfig


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one read costs: bytes by a dry run, and money by the price in the project file; limit None for no limit."""

    reads: int
    money: float
    currency: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class ViewChange:
    """What `apply` would do for one table.

    Attributes:
        change: create, replace or none.
        diff: Unified diff of the view's SQL, deployed against planned; empty for none.
        schema: Differences of columns, a line each: `+` what is added, `!` what cannot be changed.
        raw_rows: Rows of the raw table; 0 where there is none.
        raw_bytes: Its logical bytes.
        estimate: What one full read of the view costs; None where nothing can be asked yet.
    """

    change: str
    diff: str
    schema: tuple[str, ...] = ()
    raw_rows: int = 0
    raw_bytes: int = 0
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a warehouse holds of one table; None and empty where it has nothing."""

    raw: str
    raw_rows: int | None
    raw_bytes: int | None
    view: str
    view_state: str
    state: StateStanding | None = None


@dataclass(frozen=True, slots=True)
class StateDefinition:
    """A state to keep in a warehouse.

    Attributes:
        name: What the names of its tables begin with.
        raw: The raw table whose facts it compacts.
        serving: Name of its serving table; empty for none.
        lateness: Seconds after which what ended may leave it (rule M2); None: nothing leaves.
    """

    name: str
    raw: RawTable
    serving: str = ""
    lateness: int | None = None


@dataclass(frozen=True, slots=True)
class StateStanding:
    """How far a state is.

    Attributes:
        name: Its full name.
        rows: Facts it holds.
        bytes: Their logical bytes.
        landed: Newest landing time that was merged; None before the first run.
        ran_at: When it was last brought up to date; None before the first run.
        facts: A raw table of it and what landed since: what reads take instead of raw.
        is_complete: Whether it has every column of the schema; it is not read where it has not.
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
    """What one run of a state did, or would do.

    Attributes:
        facts: Raw facts that were read, those within the overlap that were merged before left out.
        keys: Rows, partitions and ranges that they are about.
        late: Raw facts that landed too late (rule M2).
        landed: Newest landing time that is merged now; None where nothing has landed.
        is_full: All of raw was read; `why` says why, where nobody asked for it.
        is_settled: The state was written anew, with deletions applied.
        state_rows: Facts in it now.
        state_bytes: Their logical bytes.
        served_rows: Rows of the serving table now; None for no such table.
        added: Columns that tables gained, and tables that were made, a line each.
        reads: Of a run that was not: bytes that it reads at most; None for one that was.
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
    """So many partitions, looked at twice: all that raw has of them, and truncates, in the raw layout; and what state and
    tail show of them, as `Engine.read` returns it (None where there are no partitions).
    """

    partitions: int
    landed: pa.Table
    shown: pa.Table | None


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a table in a month of 30 days; None: as measured, or as the schema gives.

    Attributes:
        rows: Keys that the table has.
        facts: Facts that raw holds at the start.
        facts_per_day: Facts that land in a day, every replica's copy counted.
        queries_per_day: Reads of the whole table in a day.
        runs_per_day: Runs that bring the state up to date in a day.
        text_bytes: Mean width of a text or blob, where nothing was measured.
        share: Of the columns, how much a query reads: 0 to 1.
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
    """What a way of reading a table costs in a month of 30 days: bytes that queries and runs read, bytes kept, money."""

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
        """All of it."""
        return self.query_money + self.run_money + self.kept_money


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a raw table: facts, bytes, and bytes that one read of the view takes."""

    facts: int
    bytes: int
    reads: int


class Lands(Protocol):
    """What lands event files into one raw table of a warehouse."""

    def land(self, files: Iterable[str | Path], *, progress: Progress | None = None) -> LandingReport:
        """Append event files; see `cdc_views.landing.land`."""

    def replay(self) -> ReplayReport:
        """Land again what waits in quarantine; see `cdc_views.landing.replay`."""


class WarehouseEngine(Engine, Protocol):
    """An engine that also makes the tables its views read."""

    def plan(self, view: ViewDefinition) -> ViewChange:
        """Return what `apply` would change, and what reading costs."""

    def standing(self, view: ViewDefinition) -> Standing:
        """Return what there is of a table."""

    def landing(self, raw: RawTable, format: RawFormat, *, now: datetime, forgotten: Denylist | None) -> Lands:
        """Return what lands events into a raw table, which is made if it is not there; `forgotten` as for `land`."""

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
        """Bring the raw table derived from somebody else's up to date; see `cdc_views.landing.external.adapt`.

        `names` are those of the columns that a sink keeps keys and places of records in; `now` is the new rows' landing time.
        """

    def waiting(self, raw: RawTable) -> tuple[int, str]:
        """Return how many events wait in a raw table's quarantine, and a reason of one."""

    def state(self, name: str, raw: RawTable) -> StateStanding | None:
        """Return how far the state of that name is; None where there is none, or nothing was merged into it yet."""

    def late(self, name: str, raw: RawTable) -> tuple[pa.Table, pa.Table]:
        """Return the facts that landed too late for the state of that name, and what it has purged, in the raw layout."""

    def sample(self, name: str, read: Read, *, size: int, seed: int | None) -> Sampled:
        """Return at most `size` partitions of the state of that name and of raw; `seed` None: others after each run.

        Left out are partitions that purged anything: what landed too late for them is in raw, and never shows (rule M2).
        """

    def materialize(self, state: StateDefinition, *, full: bool = False, dry_run: bool = False) -> StateRun:
        """Bring a state, and its serving table, up to date with what landed since; safe to run twice, at once, or after a kill.

        Raises `UsageError` where nothing can have landed, or the tables are another key's; `TransientError` where other
        runs kept committing first.
        """


class WarehousePlugin(EnginePlugin):
    """An engine that keeps the raw tables itself: what can be said of its places, and statements as text."""

    keeps_tables = True
    place: ClassVar[str]
    """What a project file says under `warehouse:`, for remedies; as `project.dataset`."""

    @abstractmethod
    def open(self, config: ProjectConfig, *, folder: Path) -> WarehouseEngine:
        """Return the engine, open."""

    @abstractmethod
    def raw_location(self, config: ProjectConfig, name: str) -> str:
        """Return the location, a URL, of the raw table that a project file calls `name`."""

    @abstractmethod
    def location_beside(self, keyspace: str, name: str) -> str:
        """Return the location of a raw table in a project that does not use the warehouse yet."""

    @abstractmethod
    def view_schema(self, config: ProjectConfig) -> str:
        """Return the full name of the namespace that the project's views live in."""

    @abstractmethod
    def costs(self, config: ProjectConfig, view: ViewDefinition, load: Load, measured: Measured | None) -> Sequence[Cost]:
        """Return what each way of reading the table costs; `measured` None: by the schema alone."""

    @abstractmethod
    def folder(
        self, config: ProjectConfig, views: Sequence[ViewDefinition], states: Sequence[StateDefinition]
    ) -> Mapping[str, str]:
        """Return files, path → text, of statements that make everything without this tool, and keep the views' `states`."""


def warehouse_plugin(name: str) -> WarehousePlugin | None:
    """Return the warehouse of that name; None where no engine of that name is installed, or it keeps no tables."""
    found = engine_plugin(name) if name in engine_names() else None
    return found if isinstance(found, WarehousePlugin) else None
