"""Results of data tests: run for the report, or read from a file that `validate --json` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cdc_views.errors import UsageError
from cdc_views.model.severity import Severity
from cdc_views.quality.checks import Check, Status

_EXPECTED = "a file that `cdc-views validate --json FILE` wrote was expected"
_NAME_NO_KEYS = frozenset(
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
"""Tests whose places are files, columns, nodes or commits. Those of any other test may be keys."""


def read_results(path: Path) -> Mapping[str, tuple[Check, ...]]:
    """Return the checks in a file of results, by table, in order.

    Raises `UsageError` where the file cannot be read, or is no such file.
    """
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
    )
    if check.status is not Status(record["status"]):
        raise ValueError(f"status is {record['status']!r}, but broken is {broken!r}")
    return check


def outcome(check: Check) -> str:
    """Return how a test ended, in words, without the places that it names."""
    if check.status is Status.FAILED:
        return f"does not hold for {check.broken:,} {check.unit}"
    return check.note if check.status is Status.SKIPPED else check.line()


def places(check: Check, *, with_values: bool) -> tuple[str, ...]:
    """Return where a test does not hold; without values nothing that may name a key."""
    names_no_key = check.name.partition(".")[0] in _NAME_NO_KEYS
    return check.where if with_values or names_no_key else ()
