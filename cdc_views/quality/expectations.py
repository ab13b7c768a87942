"""Our tests as Great Expectations knows them: one custom expectation, over one row of counts.

`ExpectNothingBroken` can be used in suites of your own: its column holds how often a rule was broken.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # read when the package is imported

from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.metadata_types import FailureSeverity

from cdc_views.quality.checks import Check, Severity, Status


class ExpectNothingBroken(ExpectColumnValuesToBeBetween):
    """Expect each value of a column of counts to be 0: so often was a rule broken."""

    min_value: Any = 0
    max_value: Any = 0
    description: Any = "nothing breaks the rule"


_SEVERITIES = {Severity.ERROR: FailureSeverity.CRITICAL, Severity.WARNING: FailureSeverity.WARNING}


def expectation_of(check: Check) -> ExpectNothingBroken:
    """Return the expectation of one check, whose column is called like it."""
    told = [*check.where, *([check.note] if check.note else [])]
    return ExpectNothingBroken(
        column=check.name,
        description=f"{check.rule} ({check.unit} that break it)",
        notes=[f"`{text}`" for text in told] or None,
        severity=_SEVERITIES[check.severity],
    )


def counts_of(checks: tuple[Check, ...]) -> dict[str, list[int]]:
    """Return the one row that the expectations look at: a column per check that was not skipped."""
    return {check.name: [check.broken or 0] for check in checks if check.status is not Status.SKIPPED}


__all__ = ["ExpectNothingBroken", "counts_of", "expectation_of"]
