"""The content of a report: facts about each table at one instant, ready to print. Times are UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cdc_views.formats.base import Verdict
from cdc_views.model.severity import Severity
from cdc_views.operations.replication import ReplicaReport
from cdc_views.pages.cells import CellPage
from cdc_views.pages.checking import CheckLine
from cdc_views.pages.columns import ColumnsPage
from cdc_views.pages.home import TableLine
from cdc_views.pages.landings import LandingsPage
from cdc_views.pages.nodes import UNCOUNTED, NodesPart
from cdc_views.pages.proving import ProofPage
from cdc_views.pages.waiting import WaitingPage
from cdc_views.quality.bookkeeping import Ages
from cdc_views.quality.checks import Check, Status
from cdc_views.rules.codec.jsontext import JsonRow
from cdc_views.state.tail import Tail


@dataclass(frozen=True, slots=True)
class Extent:
    """The data files of a Delta table's newest version; `rows` is None if the log does not have them."""

    version: int
    files: int
    size: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class Landing:
    """Facts that landed at one instant, µs since the epoch."""

    at: int
    facts: int


@dataclass(frozen=True, slots=True)
class RawFigures:
    """The content of a raw table: its files, facts, and landings in the order of time. `distinct` counts facts apart from the
    place and time that they were read. Events before `dropped_through` (µs since the epoch) were dropped; None if raw is whole.
    """

    extent: Extent
    facts: int
    distinct: int
    landings: tuple[Landing, ...]
    dropped_through: int | None = None

    @property
    def removed(self) -> int:
        """The number of copies, which reading merges away."""
        return self.facts - self.distinct


@dataclass(frozen=True, slots=True)
class StateFigures:
    """The files of a state, whose rows are facts; the raw version that it covers and the tail, None without facts of raw."""

    extent: Extent
    raw_version: int | None
    tail: Tail | None = None


@dataclass(frozen=True, slots=True)
class RecentRow:
    """A recent row: its largest write time (µs since the epoch, or a log position), and its explanation. `key` is JSON; `rows`
    are candidates and deletions, `cell` the page of them. In a report without values, `key` is empty, and the others have none.
    """

    written: int
    key: str
    verdict: str
    rows: tuple[JsonRow, ...]
    cell: CellPage


@dataclass(frozen=True, slots=True)
class Results:
    """The number of data tests by outcome; a failed test of severity warning is a warning, a test in error has failed."""

    passed: int
    failed: int
    warnings: int
    skipped: int

    @classmethod
    def of(cls, checks: Iterable[Check]) -> Results:
        """Count the checks by outcome."""
        warning = (Status.FAILED, Severity.WARNING)
        ended = Counter("warning" if (check.status, check.severity) == warning else check.status.value for check in checks)
        return cls(ended["passed"], ended["failed"] + ended["error"], ended["warning"], ended["skipped"])


@dataclass(frozen=True, slots=True)
class TableReport:
    """Everything about one table. If a part is None or empty, the field with `no_` before its name states why.

    `raw`, `ages` and `shown` (rows of the view) are None if nothing has landed, `state` and `serving` if there is none,
    `replicas` if copies cannot be counted. `late` counts facts that landed after the lateness horizon. `verified_through` is the
    newest proof of `verify`. `recent` has the most recently written rows, newest first. With `micros`, write times are µs since
    the epoch, otherwise log positions. `columns`, `landings`, `nodes`, `waiting`, `proof`, `lines` (of its tests) and `line` (of
    the first page) are what `cdc-views ui` shows.
    """

    name: str
    slug: str
    view: str
    page: str
    format: str
    micros: bool
    columns: ColumnsPage
    landings: LandingsPage
    waiting: WaitingPage
    proof: ProofPage
    lines: tuple[CheckLine, ...]
    line: TableLine
    raw: RawFigures | None = None
    ages: Ages | None = None
    shown: int | None = None
    state: StateFigures | None = None
    serving: Extent | None = None
    quarantined: int = 0
    late: int = 0
    nodes: NodesPart = UNCOUNTED
    checks: tuple[Check, ...] = ()
    no_checks: str = ""
    recent: tuple[RecentRow, ...] = ()
    no_recent: str = ""
    verified_through: str = ""

    @property
    def results(self) -> Results:
        """The number of its data tests by outcome."""
        return Results.of(self.checks)

    @property
    def replicas(self) -> ReplicaReport | None:
        """The copies of each change by node; None if they cannot be counted."""
        return self.nodes.replicas

    @property
    def sizes(self) -> tuple[tuple[str, int, str], ...]:
        """The bytes of its raw table, state and serving table: what, how many, and the class that colours them."""
        raw = 0 if self.raw is None else self.raw.extent.size
        state = 0 if self.state is None else self.state.extent.size
        serving = 0 if self.serving is None else self.serving.size
        return (("raw", raw, "some"), ("state", state, "good"), ("serving table", serving, "other"))

    @property
    def fidelity(self) -> str:
        """The worst verdict of its columns, without those that the project file waives."""
        order = list(Verdict)
        columns = (column.fidelity for column in self.columns.columns if column.fidelity is not None)
        lines = (line for line in (*columns, *self.columns.of_rows) if not line.waived)
        return max((line.verdict for line in lines), key=order.index, default=order[0]).value

    @property
    def truths(self) -> int:
        """The number of tests that compare the view with answers of its source."""
        return sum(check.name.startswith("agrees_with_source") for check in self.checks)


@dataclass(frozen=True, slots=True)
class RunReport:
    """A report of a project, made by a `version` of cdc-views on an `engine`; `has_values`: it shows keys and values. Ages end at
    `now`, cells expire by the clock `as_of` (rule C4), both in epoch seconds. `tests_from` is the file of the tests' results;
    empty if they ran for this report.
    """

    project: str
    version: str
    engine: str
    now: int
    as_of: int
    tests_from: str
    has_values: bool
    tables: tuple[TableReport, ...] = ()

    def failed(self) -> tuple[tuple[TableReport, Check], ...]:
        """Return failed tests, including warnings, each with its table; errors first."""
        ended = {Status.FAILED, Status.ERROR}
        found = ((table, check) for table in self.tables for check in table.checks if check.status in ended)
        return tuple(sorted(found, key=lambda one: one[1].severity is Severity.WARNING))

    @property
    def results(self) -> Results:
        """The number of data tests of all tables by outcome."""
        return Results.of(check for table in self.tables for check in table.checks)
