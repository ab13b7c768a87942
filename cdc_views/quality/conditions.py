"""Data tests of single rows as conditions, in DuckDB's dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdc_views.project.models import DataTest


def test_name(test: DataTest) -> str:
    """Return what a test of rows is called."""
    return test.name or f"{'not_null' if test.not_null else 'one_of'}.{test.column}"


test_name.__test__ = False  # type: ignore[attr-defined]  # not one for pytest


def condition_of(test: DataTest) -> str | None:
    """Return the condition that no row may break; None for a test that is not about rows."""
    column = '"' + (test.column or "").replace('"', '""') + '"'
    if test.not_null:
        return f"{column} IS NOT NULL"
    if test.one_of is not None:
        return f"{column} IN ({', '.join(map(_literal, test.one_of))}) OR {column} IS NULL"
    return test.holds


def _literal(value: str | int | bool) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
