"""The data tests of a table: results of this run or the last one, what failed where, and how they went before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_views.model.severity import Severity
from cdc_views.operations.context import TableContext
from cdc_views.operations.openlineage import Assertion
from cdc_views.operations.run_records import RunRecord, of_table
from cdc_views.pages.texts import has_withheld, visible
from cdc_views.quality.checks import Check, Report, Status
from cdc_views.quality.conditions import condition_of, test_name

NAME_NO_KEYS = frozenset(
    {
        "files_are_whole",
        "freshness",
        "nothing_in_quarantine",
        "only_our_commits",
        "replica_coverage",
        "state_lag",
        "types_as_the_schema_says",
        "watermark_never_goes_back",
    }
)
"""Tests whose places are files, columns, nodes or commits. Places of other tests may be keys."""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """A test: how it ended, what must hold, and the first places where it does not; `keys` are those that are keys of rows.
    `left_out`: it has places, which may be keys, and they stay out.
    """

    name: str
    status: str
    result: str
    rule: str
    condition: str
    keys: tuple[str, ...]
    places: tuple[str, ...]
    left_out: bool = False


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The number of tests of one run by outcome, at an instant; a failed test of severity warning is a warning."""

    at: str
    passed: int
    failed: int
    warnings: int
    skipped: int


@dataclass(frozen=True, slots=True)
class ChecksPage:
    """The tests. `lines` are of a run of now, worst first, or empty; `history` has earlier runs, oldest first; `last_failed` the
    names and results of tests that failed in the last of them, `last_skipped` the names of those that it skipped.
    """

    lines: tuple[CheckLine, ...]
    seconds: float | None
    history: tuple[Outcomes, ...]
    last_failed: tuple[tuple[str, str], ...]
    last_skipped: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...]


def checks_page(table: TableContext, records: Iterable[RunRecord], report: Report | None = None) -> ChecksPage:
    """Return the page from earlier runs, and from `report`, a run of now."""
    earlier = of_table(records, table.name)
    history = tuple(outcomes_of(record, figures) for record, figures in earlier)
    last = earlier[-1][1] if earlier else {}
    told = conditions_of(table)
    lines = () if report is None else lines_of(table, report.checks, told, with_values=True)
    return ChecksPage(
        lines,
        None if report is None else report.seconds,
        history,
        tuple((str(name), str(result)) for name, result in last.get("failures", {}).items()),
        tuple(map(str, last.get("skips", ()))),
        tuple(told.items()),
    )


def conditions_of(table: TableContext) -> dict[str, str]:
    """Return the conditions of the project file's tests, by test."""
    return {test_name(test): found.text for test in table.config.tests if (found := condition_of(test)) is not None}


def lines_of(
    table: TableContext, checks: Iterable[Check], conditions: Mapping[str, str], *, with_values: bool
) -> tuple[CheckLine, ...]:
    """Return tests, the worst first; without values, no place that may be a key. `conditions`: the project file's, by name."""
    return tuple(sorted((_line(table, check, conditions, with_values=with_values) for check in checks), key=_worst))


def outcomes_of(record: RunRecord, figures: Mapping[str, Any]) -> Outcomes:
    """Return how the tests of a table ended in an earlier run of `validate`."""
    counts = (int(figures.get(name, 0)) for name in ("passed", "failed", "warnings", "skipped"))
    return Outcomes(record.at, *counts)


def figures_of(report: Report) -> dict[str, Any]:
    """Return what a record keeps of a table's tests: counts, the names of the skipped, and of the failed a line without keys."""
    failed = [check for check in report.checks if check.status in (Status.FAILED, Status.ERROR)]
    warned = [check for check in failed if check.status is Status.FAILED and check.severity is Severity.WARNING]
    ended = [check.status for check in report.checks]
    return {
        "passed": ended.count(Status.PASSED),
        "failed": len(failed) - len(warned),
        "warnings": len(warned),
        "skipped": ended.count(Status.SKIPPED),
        "failures": {check.name[:200]: _without_places(check)[:300] for check in failed[:20]},
        "skips": [check.name[:200] for check in report.checks if check.status is Status.SKIPPED][:20],
        "seconds": round(report.seconds, 3),
    }


def assertions_of(reports: Iterable[Report]) -> dict[str, list[Assertion]]:
    """Return what OpenLineage events tell of the tests that were made, by table."""
    made = (Status.PASSED, Status.FAILED)
    return {
        report.table: [
            Assertion(check.name, check.status is Status.PASSED, check.severity is Severity.ERROR, check.rule)
            for check in report.checks
            if check.status in made
        ]
        for report in reports
    }


def _without_places(check: Check) -> str:
    return replace(check, where=()).line() if check.status is Status.FAILED else "cannot be evaluated"


def _worst(line: CheckLine) -> int:
    return {"error": 0, "failed": 1, "warning": 2, "passed": 3}.get(line.status, 4)


def _line(table: TableContext, check: Check, conditions: Mapping[str, str], *, with_values: bool) -> CheckLine:
    names_no_key = check.name.partition(".")[0] in NAME_NO_KEYS
    places = tuple(visible(place, most=300) for place in check.where)
    keys = () if names_no_key else tuple(place for place in check.where if place.startswith("{") and len(place) < 3_000)
    left_out = not names_no_key and (not with_values or (has_withheld(table) and not keys))
    if left_out:
        keys, places = (), ()
    is_warning = check.status is Status.FAILED and check.severity is Severity.WARNING
    return CheckLine(
        visible(check.name, most=200),
        "warning" if is_warning else check.status.value,
        visible(_without_places(check) if check.status is Status.FAILED else check.line(), most=400),
        visible(check.rule, most=600),
        visible(conditions.get(check.name, ""), most=2_000),
        keys,
        () if keys else places,
        left_out and bool(check.where),
    )
