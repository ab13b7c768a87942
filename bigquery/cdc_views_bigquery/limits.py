"""What BigQuery refuses for its size, checked before anything is sent.

Source of every number: Google Cloud, BigQuery, "Quotas and limits" (cloud.google.com/bigquery/quotas).
"""

from __future__ import annotations

from cdc_views.errors import UnsupportedError
from cdc_views_bigquery.types import Fields

VIEW_CHARACTERS = 256 * 1024
"""Views, "Maximum length of a standard SQL query used to define a view"."""
QUERY_BYTES = 1024 * 1024
"""Query jobs, "Maximum unresolved GoogleSQL query length"."""
RESOLVED_BYTES = 12 * 1024 * 1024
"""Query jobs, "Maximum resolved legacy and GoogleSQL query length": with the text of every view it reads."""
COLUMNS = 10_000
"""Tables, "Maximum number of columns in a table, query result, or view definition", nested and repeated ones included."""
NESTING = 15
"""Schemas, "Maximum nesting depth of STRUCT columns"."""
DESCRIPTION = 1024
"""Tables, "Maximum length of a column description", in characters."""


def check_view(query: str, *, columns: int, what: str) -> None:
    """Raise `UnsupportedError` for a view's query that is too long, or shows too many columns."""
    if len(query) > VIEW_CHARACTERS:
        raise UnsupportedError(
            f"{what} takes {len(query):,} characters for {columns:,} columns, and BigQuery keeps views of at most "
            f"{VIEW_CHARACTERS:,}",
            remedy="materialize the table and read its serving table, or split it: views of fewer columns at the schema file",
        )
    _check_count(columns, what=what)


def check_statement(sql: str, *, what: str) -> None:
    """Raise `UnsupportedError` for a statement that is too long to be sent."""
    size = len(sql.encode())
    if size > QUERY_BYTES:
        raise UnsupportedError(
            f"{what} takes {size:,} bytes, and BigQuery takes statements of at most {QUERY_BYTES:,}",
            remedy="ask for fewer columns, or read the serving table",
        )


def check_columns(fields: Fields, *, what: str) -> None:
    """Raise `UnsupportedError` for a table with too many columns, or nested too deeply."""
    _check_count(sum(field.size for field in fields), what=f"{what}, counting members of STRUCTs,")
    deepest = max(fields, key=lambda field: field.depth)
    if deepest.depth > NESTING:
        raise UnsupportedError(
            f"{what} nests {deepest.depth} STRUCTs in column {deepest.name!r}, and BigQuery takes {NESTING}",
            remedy="leave the column out of the schema file",
        )


def _check_count(columns: int, *, what: str) -> None:
    if columns > COLUMNS:
        raise UnsupportedError(
            f"{what} has {columns:,} columns, and BigQuery takes {COLUMNS:,}",
            remedy="leave columns out of the schema file, or part the table at its source",
        )
