"""The result of a data test: how often its rule was broken, and the first places."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from cdc_views.errors import UsageError
from cdc_views.model.schema import Column
from cdc_views.model.severity import Severity
from cdc_views.operations.notebook import html_table
from cdc_views.rules.codec.jsontext import quote, to_json

MOST_PLACES = 5
_EXPECTED = "a file that `cdc-views validate --json FILE` wrote was expected"


class Status(str, Enum):
    """How a test ended; `Check.note` has the reason for SKIPPED (nothing to test) and ERROR (the engine could not evaluate it),
    which counts as failed, whatever the severity.
    """

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Check:
    """One data test of one table.

    `name` is short, stable, and unique within a table; `rule` states what must hold, with the rule of semantics.md if there
    is one. `broken` counts in `unit` (rows, cells, files …) how often it does not hold; None: not counted. `where` has the first
    places, at most `MOST_PLACES`, and no values except keys; with `because`, the reasons in its place. `note` is a reason, see
    `Status`, or a figure.
    """

    name: str
    rule: str
    severity: Severity = Severity.ERROR
    broken: int | None = 0
    unit: str = "rows"
    where: tuple[str, ...] = ()
    note: str = ""
    is_evaluated: bool = True
    because: bool = False

    @property
    def status(self) -> Status:
        """How the test ended."""
        if not self.is_evaluated:
            return Status.ERROR
        if self.broken is None:
            return Status.SKIPPED
        return Status.FAILED if self.broken else Status.PASSED

    def found(self, places: Sequence[str], *, broken: int | None = None, note: str = "") -> Check:
        """Return the test with the places where it does not hold; `broken` is how often, by default once per place."""
        count = len(places) if broken is None else broken
        return replace(self, broken=count, where=tuple(places[:MOST_PLACES]), note=note)

    def skipped(self, why: str) -> Check:
        """Return the test as skipped: there was nothing to test."""
        return replace(self, broken=None, note=why)

    def errored(self, why: str) -> Check:
        """Return the test as one that could not be evaluated."""
        return replace(self, broken=None, note=why, is_evaluated=False)

    def line(self) -> str:
        """Return one line for people."""
        if self.status is Status.SKIPPED:
            return f"skipped: {self.note}"
        if self.status is Status.ERROR:
            return f"cannot be evaluated: {self.note}"
        if self.status is Status.PASSED:
            return self.note or "holds"
        first = f", {'because' if self.because else 'first:'} {self.where[0]}" if self.where else ""
        unit = self.unit[:-1] if self.broken == 1 and self.unit.endswith("s") and " and " not in self.unit else self.unit
        return f"does not hold for {self.broken:,} {unit}{first}"


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """All tests of one table, in the order they ran, at the clock `as_of` (epoch seconds, rule C4), on version `raw_version` of
    the raw table; None if nothing has landed.
    """

    table: str
    engine: str
    as_of: int
    raw_version: int | None
    seconds: float
    checks: tuple[Check, ...]

    def __repr__(self) -> str:
        return f"Report({self.table!r}, {self._counts()})"

    def _repr_html_(self) -> str:
        rows = [{"test": c.name, "result": c.status.value, "why": c.line(), "rule": c.rule} for c in self.checks]
        return html_table(("test", "result", "why", "rule"), rows, title=f"{self.table}: {self._counts()}")

    def _counts(self) -> str:
        ended = Counter(check.status.value for check in self.checks)
        return ", ".join(f"{count} {status}" for status, count in ended.items()) or "no tests"

    def failed(self, at_least: Severity = Severity.WARNING) -> tuple[Check, ...]:
        """Return the tests that failed with at least this severity, and all that could not be evaluated."""
        counts = {Severity.ERROR, at_least}
        return tuple(
            check
            for check in self.checks
            if check.status is Status.ERROR or (check.status is Status.FAILED and check.severity in counts)
        )


def key_text(columns: Iterable[Column], values: Iterable[Any]) -> str:
    """Return a key, or its first columns, as a JSON object: the name of a row in `Check.where`."""
    members = zip(columns, values, strict=False)
    return "{" + ", ".join(f"{quote(column.name)}: {to_json(column.type, value)}" for column, value in members) + "}"


def junit_xml(reports: Iterable[Report]) -> str:
    """Return JUnit XML: one suite per table, one case per check; a failed warning counts as a failure."""
    root = ET.Element("testsuites", name="cdc-views validate")
    for report in reports:
        ended = Counter(check.status for check in report.checks)
        counts = {"failures": ended[Status.FAILED], "errors": ended[Status.ERROR], "skipped": ended[Status.SKIPPED]}
        figures = {name: str(count) for name, count in {"tests": ended.total(), **counts}.items()}
        suite = ET.SubElement(root, "testsuite", {"name": report.table, **figures, "time": f"{report.seconds:.3f}"})
        for check in report.checks:
            case = ET.SubElement(suite, "testcase", classname=report.table, name=check.name)
            if check.status is Status.SKIPPED:
                ET.SubElement(case, "skipped", message=check.note)
            elif check.status is not Status.PASSED:
                kind = "error" if check.status is Status.ERROR else "failure"
                told = ET.SubElement(case, kind, type=check.severity.value, message=f"{check.rule}: {check.line()}")
                told.text = "\n".join(check.where) or None
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def records(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return one record per check, in order."""
    return [
        {
            "table": report.table,
            "check": check.name,
            "status": check.status.value,
            **{name: getattr(check, name) for name in ("severity", "broken", "unit", "rule", "where", "note")},
            **({"because": True} if check.because else {}),
        }
        for report in reports
        for check in report.checks
    ]


def read_results(path: Path) -> Mapping[str, tuple[Check, ...]]:
    """Return the checks in a file of `validate --json`, by table, in order; raises `UsageError` for an invalid file."""
    try:
        records = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; {_EXPECTED}") from error
    except ValueError as error:
        raise UsageError(f"{path}: is no JSON: {error}; {_EXPECTED}") from error
    if not isinstance(records, list):
        raise UsageError(f"{path}: holds no list of results; {_EXPECTED}")
    found: dict[str, list[Check]] = {}
    for number, record in enumerate(records, start=1):
        try:
            found.setdefault(str(record["table"]), []).append(_check(record))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: result {number} is none: {type(error).__name__}: {error}; {_EXPECTED}") from error
    return {table: tuple(checks) for table, checks in found.items()}


def _check(record: Mapping[str, Any]) -> Check:
    broken = record["broken"]
    if broken is not None and (not isinstance(broken, int) or isinstance(broken, bool)):
        raise ValueError(f"broken is {broken!r}, a number or null was expected")
    check = Check(
        str(record["check"]),
        str(record["rule"]),
        Severity(record["severity"]),
        broken,
        str(record["unit"]),
        tuple(map(str, record["where"])),
        str(record["note"]),
        is_evaluated=record["status"] != Status.ERROR.value,
        because=bool(record.get("because")),
    )
    if check.status is not Status(record["status"]):
        raise ValueError(f"status is {record['status']!r}, but broken is {broken!r}")
    return check
