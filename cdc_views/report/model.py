"""What a report tells: facts of each table at one instant, ready to be printed. Times are UTC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cdc_views.model.severity import Severity
from cdc_views.operations.fidelity import FidelityLine
from cdc_views.operations.replication import ReplicaReport
from cdc_views.quality.bookkeeping import Ages
from cdc_views.quality.checks import Check, Status
from cdc_views.report.lineage import Lineage
from cdc_views.rules.codec.jsontext import JsonRow
from cdc_views.state.tail import Tail


@dataclass(frozen=True, slots=True)
class Extent:
    """The data files that the newest version of a Delta table names; rows None where its log does not say."""

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
    """What a raw table holds: its files, facts, and landings in the order of time.

    `distinct` facts differ in more than in where and when they were read. Events before `dropped_through`, µs since the epoch,
    were dropped; None where raw is whole.
    """

    extent: Extent
    facts: int
    distinct: int
    landings: tuple[Landing, ...]
    dropped_through: int | None = None

    @property
    def removed(self) -> int:
        """Copies that reading merges away."""
        return self.facts - self.distinct


@dataclass(frozen=True, slots=True)
class StateFigures:
    """The files of a state, whose rows are facts, the version of raw that it covers, and what landed since.

    Both are None where it holds nothing of this raw table.
    """

    extent: Extent
    raw_version: int | None
    tail: Tail | None = None


@dataclass(frozen=True, slots=True)
class ViewText:
    """The statement that makes the view in one dialect, or why there is none."""

    dialect: str
    sql: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class RecentRow:
    """A row written lately: its largest write time (µs since the epoch, or a log position), and what `explain` says of it.

    `key` is JSON; `rows` are candidates and deletions. Where values are not to be told, it is empty, and they have none.
    """

    written: int
    key: str
    verdict: str
    rows: tuple[JsonRow, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """How many data tests ended how; a test of severity warning that failed is a warning, one in error has failed."""

    passed: int
    failed: int
    warnings: int
    skipped: int

    @classmethod
    def of(cls, checks: Iterable[Check]) -> Results:
        """Count them."""
        warning = (Status.FAILED, Severity.WARNING)
        ended = Counter("warning" if (check.status, check.severity) == warning else check.status.value for check in checks)
        return cls(ended["passed"], ended["failed"] + ended["error"], ended["warning"], ended["skipped"])


@dataclass(frozen=True, slots=True)
class TableReport:
    """Everything told of one table. Where a part is None or empty, the field of its name with `no_` says why.

    `raw`, `ages` and `shown` (rows of the view) are None where nothing has landed, `state` and `serving` where there is none,
    `replicas` where copies cannot be counted. `first_quarantined` is the file and line of the first event that waits in
    quarantine. `late` counts facts that landed after the lateness horizon. `recent` are the rows written most recently, newest
    first. With `micros`, write times are µs since the epoch; else they are positions of a log.
    """

    name: str
    view: str
    page: str
    format: str
    fidelity: tuple[FidelityLine, ...]
    texts: tuple[ViewText, ...]
    lineage: Lineage
    micros: bool
    raw: RawFigures | None = None
    ages: Ages | None = None
    shown: int | None = None
    state: StateFigures | None = None
    serving: Extent | None = None
    quarantined: int = 0
    first_quarantined: str = ""
    late: int = 0
    replicas: ReplicaReport | None = None
    no_replicas: str = ""
    checks: tuple[Check, ...] = ()
    no_checks: str = ""
    recent: tuple[RecentRow, ...] = ()
    no_recent: str = ""

    @property
    def results(self) -> Results:
        """How many of its data tests ended how."""
        return Results.of(self.checks)

    @property
    def truths(self) -> int:
        """How many tests compare the view with what its source answered."""
        return sum(check.name.startswith("agrees_with_source") for check in self.checks)


@dataclass(frozen=True, slots=True)
class RunReport:
    """A report of a project, made by a `version` of cdc-views on an `engine`.

    Attributes:
        now: Epoch seconds: when the report was made, which ages are counted to.
        as_of: Epoch seconds: the clock that cells expire by (rule C4).
        tests_from: The file that the tests' results were read from; empty where they ran for this report.
        has_values: Whether keys and values are told.
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
        """Return the tests that failed, warnings among them, each with its table; those that matter most first."""
        ended = {Status.FAILED, Status.ERROR}
        found = ((table, check) for table in self.tables for check in table.checks if check.status in ended)
        return tuple(sorted(found, key=lambda one: one[1].severity is Severity.WARNING))

    @property
    def results(self) -> Results:
        """How many data tests of all tables ended how."""
        return Results.of(check for table in self.tables for check in table.checks)
