"""The text of one model: what SQLMesh wants to know of it, the macro that shows the raw table, and the view's query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_views.engines.duckdb.types import quoted
from cdc_views.errors import UnsupportedError
from cdc_views.export.describing import ROLES, compares_as_keys, grain, never_null
from cdc_views.model.conditions import Condition
from cdc_views.model.naming import physical_name
from cdc_views.model.severity import Severity
from cdc_views.operations.raw_files import raw_variable
from cdc_views.plan.build import Ask
from cdc_views.quality.conditions import condition_of
from cdc_views.sql import rows_sql

if TYPE_CHECKING:
    from cdc_views.project.models import DataTest
    from cdc_views.table import Table

_MODEL = """\
/* {mark}, do not edit */
MODEL (
  name {name},
  kind FULL,{cron}
  dialect 'duckdb,normalization_strategy=case_sensitive',
  description {description},
  grain ({grain}),
  column_descriptions (
    {columns}
  ),
  audits (
    {audits}
  ),
  optimize_query FALSE
);

@cdc_views_read({table});

{query}
"""
_TEMPLATE = re.compile(r"\{[{%#]")
_CLOCK = "CAST(GETVARIABLE('cdc_views_now') AS BIGINT)"


def model_name(table: str) -> str:
    """Return what SQLMesh calls a table's model: a plain schema and name.

    >>> modelquoted("shop.orders"), modelquoted("shop.OrderItems")
    ('shop.orders', 'shop.x__4frder_49tems')
    """
    schema, dot, name = table.partition(".")
    return f"{physical_name(schema)}.{physical_name(name)}" if dot else physical_name(table)


def model_sql(table: Table, *, mark: str) -> str:
    """Return the model of a table's rows; `mark` says what wrote it.

    Raises:
        UnsupportedError: DuckDB's SQL cannot show the table, or SQLMesh would read a column's name as something else.
    """
    schema = table.schema
    raw = f"READ_PARQUET(GETVARIABLE('{raw_variable(table.name)}'), union_by_name = TRUE)"
    query = rows_sql(
        Ask(table.relation), dialect_name="duckdb", strategy=table.config.view.strategy.value, table=raw, clock=_CLOCK
    )
    schedule = table.config.materialize.schedule
    described = [f"{quoted(column.name)} = {_text(f'{ROLES[column.role]}, {column.type}')}" for column in schema.columns]
    model = _MODEL.format(
        mark=mark,
        name=model_name(table.name),
        cron=f"\n  cron {_text(schedule)}," if schedule else "",
        description=_text(f"The latest row of every key of {table.name}. {grain(schema)}"),
        grain=", ".join(quoted(column.name) for column in schema.row_key),
        columns=",\n    ".join(described),
        audits=",\n    ".join(_audits(table)),
        table=_text(table.name),
        query=query,
    )
    _check(table.name, query=query, model=model)
    return model


def _audits(table: Table) -> Iterator[str]:
    """What the key promises, then the project file's tests of rows."""
    schema = table.schema
    keys = [quoted(column.name) for column in schema.row_key]
    if compares_as_keys(schema):
        yield f"unique_combination_of_columns(columns := ({', '.join(keys)}))"
    never = [quoted(column.name) for column in schema.row_key if never_null(schema, column)]
    yield f"not_null(columns := ({', '.join(never)}))"
    for test in table.config.tests:
        condition = condition_of(test)
        if condition is not None:
            yield _audit(test, condition)


def _audit(test: DataTest, condition: Condition) -> str:
    """One test of rows; a warning does not block the run."""
    suffix = "" if test.severity is Severity.ERROR else "_non_blocking"
    return f"forall{suffix}(criteria := (({condition.sql()})))"


def _check(table: str, *, query: str, model: str) -> None:
    """Refuse texts in which SQLMesh would find something of its own, in quotes as well and more than once."""
    found = ["@"] if "@" in query else _TEMPLATE.findall(model)
    if found:
        raise UnsupportedError(
            f"{table} has a name or a test with `{found[0]}` in it, which SQLMesh would read as a variable or a template",
            remedy="leave the table out with --select",
        )


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
