"""Our tests as Great Expectations 1.x: built-in expectations on one row of counts, and on the merged rows.

Needs neither the command line nor a context of ours. `suite_of` and `counts_of` bring a `Report` into your own project, whose
suites then load without this module. `ExpectNothingBroken` tests your own counts on any data source (pandas, SQL, Spark); a
suite saved with it loads only after an import of this module.

`expectations_of` repeats the promises of a table's schema and project file for readers of suites. It leaves out columns whose
values pandas would merge or lose; for these, `validate` counts.
Source: Great Expectations 1.24, expectations/expectation.py.
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
from cdc_views.quality.checks import Check, Report, Status
from cdc_views.quality.conditions import never_null, test_name

with needs("Great Expectations' suites", extra="quality"):
    from great_expectations import ExpectationSuite
    from great_expectations.expectations.core.expect_column_max_to_be_between import ExpectColumnMaxToBeBetween
    from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
    from great_expectations.expectations.metadata_types import FailureSeverity

    gxe: Any = import_module("great_expectations.expectations")  # it exports its classes without declaring them

if TYPE_CHECKING:
    from cdc_views.model.schema import Column, TableSchema
    from cdc_views.operations.context import TableContext
    from cdc_views.project.models import DataTest

OWNER = "cdc_views"
"""Key in the `meta` of an expectation that cdc-views wrote, and writes again each time."""
_SEVERITIES = {Severity.ERROR: FailureSeverity.CRITICAL, Severity.WARNING: FailureSeverity.WARNING}
_WHOLE = {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT}
_INEXACT = {Kind.FLOAT, Kind.DOUBLE}
"""-0.0 and 0.0 are two keys, but one value to pandas."""
_FITS: dict[type, set[Kind]] = {str: {Kind.TEXT}, int: _WHOLE, bool: {Kind.BOOLEAN}}
_COMPARED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)


class ExpectNothingBroken(ExpectColumnValuesToBeBetween):
    """Expect each value of a column of counts, how often a rule was broken, to be 0. Fails without rows or with a null, which are
    no counts; the built-in expectation would pass.
    """

    min_value: Any = 0
    max_value: Any = 0
    description: Any = "nothing breaks the rule"

    def _validate(self, metrics: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        found = super()._validate(metrics, *arguments, **options)
        has_rows = bool(metrics.get("table.row_count"))
        nulls = metrics.get("column_values.nonnull.unexpected_count")
        return {**found, "success": bool(found["success"]) and has_rows and nulls == 0}


def suite_of(report: Report, name: str | None = None) -> ExpectationSuite:
    """Return the suite of a report, by default with the table's name. For each check that was not skipped, an expectation tests
    the column with the check's name: how often the rule was broken.
    """
    expectations = [_of_check(check) for check in report.checks if check.status is not Status.SKIPPED]
    return ExpectationSuite(name=name or report.table, expectations=expectations)


def _of_check(check: Check) -> ExpectColumnMaxToBeBetween:
    notes = [*check.where, *([check.note] if check.note else [])]
    return ExpectColumnMaxToBeBetween(
        column=check.name,
        min_value=0,
        max_value=0,
        description=f"{check.rule} ({check.unit} that break it)",
        notes=[f"`{text}`" for text in notes] or None,
        severity=_SEVERITIES[check.severity],
        meta={OWNER: True},
    )


def counts_of(checks: tuple[Check, ...]) -> dict[str, list[int]]:
    """Return the one row that the expectations test: a column per check that was not skipped."""
    return {
        check.name: [check.broken or int(check.status is Status.ERROR)] for check in checks if check.status is not Status.SKIPPED
    }


def expectations_of(table: TableContext) -> list[Any]:
    """Return the expectations of a table's merged rows: its columns, its key, and its data tests of single rows."""
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
    expectation.severity = _SEVERITIES[severity]
    return expectation


def _key(schema: TableSchema) -> Iterator[Any]:
    key = [column for column in schema.columns if column.role in (Role.PARTITION, Role.CLUSTERING)]
    for column in key:
        if never_null(schema, column):
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
    """Yield the expectation of a condition such as `amount >= 0` on a column of whole numbers; nothing for others."""
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except sqlglot.errors.SqlglotError:  # the check of that condition reports it
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
