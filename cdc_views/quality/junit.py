"""Reports as JUnit XML, which every CI shows, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

from cdc_views.quality.checks import Check, Report, Status


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
