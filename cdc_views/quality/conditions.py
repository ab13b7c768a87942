"""Data tests of single rows as conditions in DuckDB's dialect, and the promises of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_views.engines.duckdb.types import literal, quoted
from cdc_views.model.conditions import Condition
from cdc_views.model.schema import Column, Role, TableSchema

if TYPE_CHECKING:
    from cdc_views.project.models import DataTest


def never_null(schema: TableSchema, column: Column) -> bool:
    """Return whether the key guarantees a value in a column; a partition with live statics alone has no clustering key (W3)."""
    return column.role is Role.PARTITION or (column.role is Role.CLUSTERING and not schema.statics)


def test_name(test: DataTest) -> str:
    """Return the name of a test of rows."""
    return test.name or f"{'not_null' if test.not_null else 'one_of'}.{test.column}"


test_name.__test__ = False  # type: ignore[attr-defined]  # not one for pytest


def condition_of(test: DataTest) -> Condition | None:
    """Return the condition that every row must meet, None for a test that is not about rows; raises `UsageError` if invalid."""
    column = quoted(test.column or "")
    if test.not_null:
        text = f"{column} IS NOT NULL"
    elif test.one_of is not None:
        values = (literal(value) if isinstance(value, str) else str(value) for value in test.one_of)
        text = f"{column} IN ({', '.join(values)}) OR {column} IS NULL"
    elif test.holds is not None:
        text = test.holds
    else:
        return None
    return Condition(text, called=f"the condition of data test {test_name(test)!r}:")


def is_of_rows(test: DataTest) -> bool:
    """Return whether a test is a condition on rows, valid or not."""
    return test.column is not None or test.holds is not None
