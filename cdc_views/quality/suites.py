"""What a table's schema and project file promise, as Great Expectations' own expectations of its merged rows.

Only built-in expectations, so that the suite opens, runs and saves where cdc-views was never imported. They say again
what the checks of `validate` counted, to those who read suites; a column whose values pandas would merge or lose is left
to the checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from cdc_views.model.extras import needs
from cdc_views.model.schema import Role
from cdc_views.model.severity import Severity
from cdc_views.model.types import Kind, Scalar
from cdc_views.quality.conditions import test_name

with needs("Great Expectations' suites", extra="quality"):
    gxe: Any = import_module("great_expectations.expectations")  # it exports its classes without saying so
    from great_expectations.expectations.metadata_types import FailureSeverity

if TYPE_CHECKING:
    from cdc_views.model.schema import Column, TableSchema
    from cdc_views.operations.context import TableContext
    from cdc_views.project.models import DataTest

OWNER = "cdc_views"
"""In the `meta` of an expectation that cdc-views wrote, and writes anew each time."""
SEVERITIES = {Severity.ERROR: FailureSeverity.CRITICAL, Severity.WARNING: FailureSeverity.WARNING}
_WHOLE = {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT}
_INEXACT = {Kind.FLOAT, Kind.DOUBLE}
"""-0.0 and 0.0 are two keys, and one value to pandas."""
_FITS: dict[type, set[Kind]] = {str: {Kind.TEXT}, int: _WHOLE, bool: {Kind.BOOLEAN}}


def expectations_of(table: TableContext) -> list[Any]:
    """Return what the merged rows of a table must meet: its columns, its key, and its data tests of single rows."""
    schema = table.schema
    names = [column.name for column in schema.columns]
    found = [_ours(gxe.ExpectTableColumnsToMatchSet(column_set=names, exact_match=True), "it has the columns of the schema")]
    found += [_ours(expectation, "the key names one row") for expectation in _key(schema)]
    for test in table.config.tests:
        found += [_ours(expectation, test_name(test), test.severity) for expectation in _tested(schema, test)]
    return found


def _ours(expectation: Any, why: str, severity: Severity = Severity.ERROR) -> Any:
    expectation.meta = {OWNER: True}
    expectation.description = why
    expectation.severity = SEVERITIES[severity]
    return expectation


def _key(schema: TableSchema) -> Iterator[Any]:
    key = [column for column in schema.columns if column.role in (Role.PARTITION, Role.CLUSTERING)]
    may_lack = any(column.role is Role.STATIC for column in schema.columns)
    for column in key:
        # a partition of static values alone shows as one row without clustering columns
        if column.role is Role.PARTITION or not may_lack:
            yield gxe.ExpectColumnValuesToNotBeNull(column=column.name)
    if not all(isinstance(column.type, Scalar) and column.type.kind not in _INEXACT for column in key):
        return
    if len(key) == 1:
        yield gxe.ExpectColumnValuesToBeUnique(column=key[0].name)
    else:
        yield gxe.ExpectCompoundColumnsToBeUnique(column_list=[column.name for column in key], ignore_row_if="never")


def _tested(schema: TableSchema, test: DataTest) -> Iterator[Any]:
    if test.not_null and test.column is not None:
        yield gxe.ExpectColumnValuesToNotBeNull(column=test.column)
    elif test.one_of is not None and test.column is not None:
        kind = schema.column(test.column).type
        if isinstance(kind, Scalar) and all(kind.kind in _FITS[type(value)] for value in test.one_of):
            yield gxe.ExpectColumnValuesToBeInSet(column=test.column, value_set=list(test.one_of))
    elif test.holds is not None:
        yield from _between(schema, test.holds)


def _between(schema: TableSchema, text: str) -> Iterator[Any]:
    """Yield the expectation of a condition such as `amount >= 0` on a column of whole numbers; none for any other."""
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except sqlglot.errors.SqlglotError:  # told by the check of that condition
        return
    column = _whole_column(schema, tree.this) if isinstance(tree, _COMPARED) else None
    if column is None:
        return
    if isinstance(tree, exp.Between):
        low, high = _number(tree.args["low"]), _number(tree.args["high"])
        if low is not None and high is not None:
            yield gxe.ExpectColumnValuesToBeBetween(column=column.name, min_value=low, max_value=high)
    elif (limit := _number(tree.expression)) is not None:
        side, strict = ("min", exp.GT) if isinstance(tree, (exp.GT, exp.GTE)) else ("max", exp.LT)
        bounds: dict[str, Any] = {f"{side}_value": limit, f"strict_{side}": isinstance(tree, strict)}
        yield gxe.ExpectColumnValuesToBeBetween(column=column.name, **bounds)


_COMPARED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


def _whole_column(schema: TableSchema, node: Any) -> Column | None:
    if not isinstance(node, exp.Column) or not schema.has(node.name):
        return None
    column = schema.column(node.name)
    return column if isinstance(column.type, Scalar) and column.type.kind in _WHOLE else None


def _number(node: Any) -> int | None:
    sign, literal = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if not isinstance(literal, exp.Literal) or literal.is_string or not str(literal.this).isdigit():
        return None
    return sign * int(literal.this)
