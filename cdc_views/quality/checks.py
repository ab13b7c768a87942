"""What a data test of a table found: how often a rule was broken, and where first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from xml.etree import ElementTree as ET

from cdc_views.model.severity import Severity


class Status(str, Enum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """There was nothing to look at; `note` says why."""
    ERROR = "error"
    """The engine could not evaluate it; `note` says why. It counts as failed, however little it matters."""


@dataclass(frozen=True, slots=True)
class Check:
    """One data test of one table.

    Attributes:
        name: Short and stable, e.g. `one_row_per_key`; unique within a table.
        rule: What must hold, in words; names the rule of docs/semantics.md where there is one.
        severity: How much it matters.
        broken: How often it does not hold; a whole number of what `unit` names. None where nobody counted.
        unit: What is counted: rows, cells, files …
        where: The first places where it does not hold, at most `MOST_PLACES`; holds no values of columns that are not
            part of a key.
        note: Why it was skipped or could not be evaluated, or a figure worth telling.
        is_evaluated: Whether it could be.
    """

    name: str
    rule: str
    severity: Severity = Severity.ERROR
    broken: int | None = 0
    unit: str = "rows"
    where: tuple[str, ...] = ()
    note: str = ""
    is_evaluated: bool = True

    @property
    def status(self) -> Status:
        """How it ended."""
        if not self.is_evaluated:
            return Status.ERROR
        if self.broken is None:
            return Status.SKIPPED
        return Status.FAILED if self.broken else Status.PASSED

    def skipped(self, why: str) -> Check:
        """Return the test as one that had nothing to look at."""
        return replace(self, broken=None, note=why)

    def errored(self, why: str) -> Check:
        """Return the test as one that could not be evaluated."""
        return replace(self, broken=None, note=why, is_evaluated=False)

    def line(self) -> str:
        """One line for people."""
        if self.status is Status.SKIPPED:
            return f"skipped: {self.note}"
        if self.status is Status.ERROR:
            return f"cannot be evaluated: {self.note}"
        if self.status is Status.PASSED:
            return self.note or "holds"
        first = f", first: {self.where[0]}" if self.where else ""
        return f"does not hold for {self.broken:,} {self.unit}{first}"


MOST_PLACES = 5


@dataclass(frozen=True, slots=True)
class Report:
    """All tests of one table.

    Attributes:
        table: Its full name.
        engine: Where they ran.
        as_of: Epoch seconds: the clock they were judged at (rule C4).
        raw_version: Version of the raw table that they looked at; None where nothing has landed.
        seconds: How long they took.
        checks: In the order they ran.
    """

    table: str
    engine: str
    as_of: int
    raw_version: int | None
    seconds: float
    checks: tuple[Check, ...]

    def failed(self, at_least: Severity = Severity.WARNING) -> tuple[Check, ...]:
        """Return the tests that failed and matter at least so much, and all that could not be evaluated."""
        counts = {Severity.WARNING, Severity.ERROR} if at_least is Severity.WARNING else {Severity.ERROR}
        failed = {check for check in self.checks if check.status is Status.FAILED and check.severity in counts}
        return tuple(check for check in self.checks if check in failed or check.status is Status.ERROR)


def junit_xml(reports: Iterable[Report]) -> str:
    """Return one test suite per table, one test case per check; a warning that failed counts as a failure."""
    root = ET.Element("testsuites", name="cdc-views validate")
    for report in reports:
        skipped = sum(check.status is Status.SKIPPED for check in report.checks)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=report.table,
            tests=str(len(report.checks)),
            failures=str(sum(check.status is Status.FAILED for check in report.checks)),
            errors=str(sum(check.status is Status.ERROR for check in report.checks)),
            skipped=str(skipped),
            time=f"{report.seconds:.3f}",
        )
        for check in report.checks:
            _case(suite, report, check)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, report: Report, check: Check) -> None:
    case = ET.SubElement(suite, "testcase", classname=report.table, name=check.name)
    if check.status is Status.SKIPPED:
        ET.SubElement(case, "skipped", message=check.note)
    elif check.status is Status.ERROR:
        ET.SubElement(case, "error", type=check.severity.value, message=f"{check.rule}: {check.line()}")
    elif check.status is Status.FAILED:
        failure = ET.SubElement(case, "failure", type=check.severity.value, message=f"{check.rule}: {check.line()}")
        failure.text = "\n".join(check.where)


def records(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return one record per check, in order."""
    return [
        {
            "table": report.table,
            "check": check.name,
            "status": check.status.value,
            "severity": check.severity.value,
            "broken": check.broken,
            "unit": check.unit,
            "rule": check.rule,
            "where": list(check.where),
            "note": check.note,
        }
        for report in reports
        for check in report.checks
    ]
