"""What BigQuery refuses for its size, asked of tables, views and statements.

The numbers are those of `cdc_views_bigquery.merging.limits`.
"""

from __future__ import annotations

from cdc_views.errors import UnsupportedError
from cdc_views_bigquery.merging import limits
from cdc_views_bigquery.types import Fields


def check_view(query: str, *, columns: int, what: str) -> None:
    """Raise `UnsupportedError` for a view's query that is too long, or shows too many columns."""
    limits.check_view(
        query,
        what=f"{what}, of {columns:,} columns,",
        remedy="materialize the table and read its serving table, or split it: views of fewer columns at the schema file",
    )
    limits.check_count(columns, what=what)


def check_statement(sql: str, *, what: str) -> None:
    """Raise `UnsupportedError` for a statement that is too long to be sent."""
    limits.check_statement(sql, what=what, remedy="ask for fewer columns, or read the serving table")


def check_columns(fields: Fields, *, what: str) -> None:
    """Raise `UnsupportedError` for a table with too many columns, or nested too deeply."""
    limits.check_count(sum(field.size for field in fields), what=f"{what}, counting members of STRUCTs,")
    deepest = max(fields, key=lambda field: field.depth)
    if deepest.depth > limits.NESTING:
        raise UnsupportedError(
            f"{what} nests {deepest.depth} STRUCTs in column {deepest.name!r}, and BigQuery takes {limits.NESTING}",
            remedy="leave the column out of the schema file",
        )


def check_authorized(known: int, *, dataset: str) -> None:
    """Raise `UnsupportedError` where a dataset lets as many views read it as it can."""
    if known >= limits.AUTHORIZED:
        raise UnsupportedError(
            f"{dataset} lets {known:,} views read it, and BigQuery takes {limits.AUTHORIZED:,}",
            remedy="authorize the dataset of the views instead, and set `bigquery.authorize_views: false`",
        )
