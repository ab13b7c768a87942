"""The seam to a warehouse that keeps raw tables itself, and not as Delta tables of this machine.

A package offers one through the entry point group `cdc_views.warehouses`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from cdc_views.engines.base import Engine, ViewDefinition
from cdc_views.errors import UnsupportedError

if TYPE_CHECKING:
    from cdc_views.project import ProjectConfig

SCHEME = "bigquery://"
"""What the location of a raw table in BigQuery starts with; its full name follows."""


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
    notes: tuple[str, ...] = field(default=())


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


class WarehouseEngine(Engine, Protocol):
    """An engine that also makes the tables its views read."""

    def plan(self, view: ViewDefinition) -> ViewChange:
        """Return what `apply` would change, and what reading costs."""

    def standing(self, view: ViewDefinition) -> Standing:
        """Return what there is of a table."""


class Warehouse(Protocol):
    """What a package offers: an engine, and statements as text."""

    def open(self, config: ProjectConfig) -> WarehouseEngine:
        """Return an engine; nothing is sent before its first use."""

    def view_sql(self, config: ProjectConfig, view: ViewDefinition) -> str:
        """Return the statement that creates the view."""

    def costs(self, config: ProjectConfig, view: ViewDefinition, load: Load, measured: Measured | None) -> Sequence[Cost]:
        """Return what each way of reading the table costs; `measured` None: by the schema alone."""

    def folder(self, config: ProjectConfig, views: Sequence[ViewDefinition]) -> Mapping[str, str]:
        """Return files, path → text, of statements that make everything without this tool."""


def is_warehouse(name: str) -> bool:
    """Whether an installed package offers a warehouse of that name."""
    return name in {entry.name for entry in entry_points(group="cdc_views.warehouses")}


def warehouse(name: str) -> Warehouse:
    """Return what the installed package of that name offers; raises `UnsupportedError` where there is none."""
    for entry in entry_points(group="cdc_views.warehouses"):
        if entry.name == name:
            found: Warehouse = entry.load()
            return found
    raise UnsupportedError(f"engine {name} is not installed", remedy=f"pip install 'cdc-views[{name}]'")


__all__ = [
    "SCHEME",
    "Cost",
    "Estimate",
    "Load",
    "Measured",
    "Standing",
    "ViewChange",
    "Warehouse",
    "WarehouseEngine",
    "is_warehouse",
    "warehouse",
]
