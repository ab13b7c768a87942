"""The first page: every table in a line, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

from cdc_views.errors import CdcViewsError
from cdc_views.operations.context import TableContext
from cdc_views.operations.run_records import RunRecord, of_table
from cdc_views.operations.status import TableStatus, status_of
from cdc_views.operations.verifying.record import record_of
from cdc_views.pages.checking import Outcomes, outcomes_of
from cdc_views.pages.texts import visible
from cdc_views.pages.wording import counted

PAGE = 50
"""Tables of a page."""


class Level(IntEnum):
    """How bad a table is off; the least is the worst."""

    BROKEN = 0
    FAILED = 1
    WARNED = 2
    EMPTY = 3
    UNKNOWN = 4
    WELL = 5


@dataclass(frozen=True, slots=True)
class TableFinding:
    """What is to be said of a table, and the page that has more of it."""

    level: Level
    text: str
    page: str


@dataclass(frozen=True, slots=True)
class TableLine:
    """One table: its status as `status` prints it (None: not looked at yet, or its log is not readable), what is to be said of
    it, the last run of its tests, and when facts landed last (epoch seconds; None: never, or unknown).
    """

    name: str
    slug: str
    status: TableStatus | None = None
    findings: tuple[TableFinding, ...] = ()
    tests: Outcomes | None = None
    landed: int | None = None

    @property
    def level(self) -> Level:
        """The level of the worst finding."""
        if self.status is None and not self.findings:
            return Level.UNKNOWN
        return min((finding.level for finding in self.findings), default=Level.WELL)


@dataclass(frozen=True, slots=True)
class HomePage:
    """A page of tables, the worst first. `known` of `in_all` have been looked at; `found` match the search; `counts` has
    these by level.
    """

    lines: tuple[TableLine, ...]
    in_all: int
    known: int
    found: int
    offset: int
    search: str
    counts: Mapping[str, int]
    runs: tuple[RunRecord, ...] = ()
    page_size: int = PAGE

    @property
    def has_more(self) -> bool:
        """Whether tables come after those of this page."""
        return self.offset + len(self.lines) < self.found


def line_of(table: TableContext, records: Iterable[RunRecord]) -> TableLine:
    """Return the line of one table, from logs and records alone."""
    ran = of_table([record for record in records if record.command == "validate"], table.name)
    return line_with(table, outcomes_of(*ran[-1]) if ran else None)


def line_with(table: TableContext, tests: Outcomes | None) -> TableLine:
    """Return the line of one table whose tests ended so, from logs alone."""
    if table.project.is_remote:  # it has no logs that could be read for nothing
        there = TableFinding(Level.WELL, f"in {table.project.engine_plugin.title}", "rows")
        return TableLine(table.name, table.config.slug, None, (*_of_tests(tests), there), tests)
    try:
        status = status_of(table)
        losses = int(record_of(table).last.get("losses", 0))
    except CdcViewsError as error:
        broken = TableFinding(Level.BROKEN, visible(str(error), most=400), "proof")
        return TableLine(table.name, table.config.slug, None, (broken,), tests)
    found = tuple(sorted(_findings(status, tests, losses), key=lambda finding: finding.level))
    landed = None if status.landed_at is None else int(datetime.fromisoformat(status.landed_at).timestamp())
    return TableLine(table.name, table.config.slug, status, found, tests, landed)


def _findings(status: TableStatus, tests: Outcomes | None, losses: int) -> list[TableFinding]:
    found = []
    if status.problem:
        found.append(TableFinding(Level.BROKEN, visible(status.problem, most=400), "proof"))
    if losses:
        found.append(TableFinding(Level.FAILED, f"{losses:,} cells lost", "proof"))
    found += _of_tests(tests)
    if status.quarantined:
        found.append(TableFinding(Level.WARNED, f"{status.quarantined:,} in quarantine", "quarantine"))
    if status.raw_version is None and not status.problem:
        found.append(TableFinding(Level.EMPTY, "nothing landed", "landings"))
    return found


def _of_tests(tests: Outcomes | None) -> list[TableFinding]:
    found = []
    if tests is not None and tests.failed:
        found.append(TableFinding(Level.FAILED, f"{tests.failed:,} failed", "tests"))
    if tests is not None and tests.warnings:
        found.append(TableFinding(Level.WARNED, counted(tests.warnings, "warning"), "tests"))
    return found


def home_page(
    names: Mapping[str, str],
    known: Mapping[str, TableLine],
    *,
    search: str = "",
    offset: int = 0,
    runs: Iterable[RunRecord] = (),
    page_size: int = PAGE,
) -> HomePage:
    """Return the page of tables (`names`: their names and slugs) from the lines that are known so far; opens no table."""
    lines = [known.get(name) or TableLine(name, slug) for name, slug in names.items()]
    asked = search.casefold().split()
    found = [line for line in lines if all(word in line.name.casefold() for word in asked)]
    counts: dict[str, int] = {level.name.lower(): 0 for level in Level}
    for line in found:
        counts[line.level.name.lower()] += 1
    found.sort(key=lambda line: (line.level, -sum(_weight(line)), line.name))
    looked = sum(name in known for name in names)
    shown = tuple(found[offset : offset + page_size])
    return HomePage(shown, len(lines), looked, len(found), offset, search, counts, tuple(runs), page_size)


def _weight(line: TableLine) -> tuple[Any, ...]:
    quarantined = 0 if line.status is None else line.status.quarantined
    return (0 if line.tests is None else line.tests.failed * 1_000, quarantined)
