"""Our tests as Great Expectations 1.x knows them: built-in expectations over one row of counts.

Needs no command line and no context of ours. `suite_of` and `counts_of` bring a `Report` into a project of your own, whose
suites then load without this module. `ExpectNothingBroken` tests counts of your own, on any data source (pandas, SQL,
Spark); suites that were saved with it load where this module was imported before.
Source: Great Expectations 1.24, expectations/expectation.py.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read when the package is imported

from cdc_views.model.extras import needs
from cdc_views.quality.checks import Check, Report, Status
from cdc_views.quality.suites import OWNER, SEVERITIES

with needs("Great Expectations' suites", extra="quality"):
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.core.expect_column_max_to_be_between import ExpectColumnMaxToBeBetween
    from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween


class ExpectNothingBroken(ExpectColumnValuesToBeBetween):
    """Expect each value of a column of counts to be 0: so often was a rule broken.

    No row, or a null, is no count: then it fails, where the expectation it is made of would be met.
    """

    min_value: Any = 0
    max_value: Any = 0
    description: Any = "nothing breaks the rule"

    def _validate(self, metrics: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        """What Great Expectations calls with the rows and nulls it counted."""
        found = super()._validate(metrics, *arguments, **options)
        has_rows = bool(metrics.get("table.row_count"))
        nulls = metrics.get("column_values.nonnull.unexpected_count")
        return {**found, "success": bool(found["success"]) and has_rows and nulls == 0}


def expectation_of(check: Check) -> ExpectColumnMaxToBeBetween:
    """Return the expectation of one check, whose column is called like it: what it observes is how often the rule broke."""
    notes = [*check.where, *([check.note] if check.note else [])]
    return ExpectColumnMaxToBeBetween(
        column=check.name,
        min_value=0,
        max_value=0,
        description=f"{check.rule} ({check.unit} that break it)",
        notes=[f"`{text}`" for text in notes] or None,
        severity=SEVERITIES[check.severity],
        meta={OWNER: True},
    )


def suite_of(report: Report, name: str | None = None) -> ExpectationSuite:
    """Return the suite of a report, an expectation per check that was not skipped; by default called like the table."""
    expectations = [expectation_of(check) for check in report.checks if check.status is not Status.SKIPPED]
    return ExpectationSuite(name=name or report.table, expectations=expectations)


def counts_of(checks: tuple[Check, ...]) -> dict[str, list[int]]:
    """Return the one row that the expectations look at: a column per check that was not skipped."""
    return {
        check.name: [check.broken or int(check.status is Status.ERROR)] for check in checks if check.status is not Status.SKIPPED
    }
