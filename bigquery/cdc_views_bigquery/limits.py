"""BigQuery's limits of size, checked before anything is sent; no other module has these numbers.

Source of every number: Google Cloud, BigQuery, "Quotas and limits" (cloud.google.com/bigquery/quotas), by section and limit.
"""

from __future__ import annotations

from cdc_views.errors import UnsupportedError
from cdc_views_bigquery.types import Fields

QUERY_BYTES = 1024 * 1024
"""Query jobs, "Maximum unresolved GoogleSQL query length", of a script, too; "Maximum SQL query character length" is as wide."""
VIEW_CHARACTERS = 256 * 1024
"""Logical views, "Maximum length of a GoogleSQL query used to define a view"; views that it reads do not count."""
RESOLVED_BYTES = 12 * 1024 * 1024
"""Query jobs, "Maximum resolved legacy and GoogleSQL query length": with the text of every view that it reads."""
COLUMNS = 10_000
"""Query jobs, "Maximum columns in a table, query result, or view definition", nested and repeated ones included."""
NESTING = 15
"""All tables, "Maximum depth of nested records"."""
COLUMN_DESCRIPTION = 1_024
"""All tables, "Maximum length of a column description", in characters."""
AUTHORIZED = 2_500
"""Datasets, "Number of authorized resources in a dataset's access control list"; each view and each part of one counts."""
PARTITIONS_OF_A_JOB = 4_000
"""Partitioned tables, "Number of partitions modified by a single job"."""
CLUSTERED = 4
"""Introduction to clustered tables, Limitations: clustering columns of a table."""


def fits(sql: str) -> bool:
    """Return whether a statement or script can be sent."""
    return len(sql.encode()) <= QUERY_BYTES


def check_statement(sql: str, *, what: str, remedy: str = "ask for fewer columns, or read the serving table") -> None:
    """Raise `UnsupportedError` for a statement or script that is too long to be sent."""
    if not fits(sql):
        raise UnsupportedError(
            f"{what} takes {len(sql.encode()):,} bytes, and BigQuery takes statements of at most {QUERY_BYTES:,}", remedy=remedy
        )


def check_view(sql: str, *, what: str, remedy: str) -> None:
    """Raise `UnsupportedError` for a view whose query is too long to be kept."""
    if len(sql) > VIEW_CHARACTERS:
        raise UnsupportedError(
            f"{what} takes {len(sql):,} characters, and BigQuery keeps views of at most {VIEW_CHARACTERS:,}", remedy=remedy
        )


def check_count(columns: int, *, what: str) -> None:
    """Raise `UnsupportedError` for more columns than a table or view may have."""
    if columns > COLUMNS:
        raise UnsupportedError(
            f"{what} has {columns:,} columns, and BigQuery takes {COLUMNS:,}",
            remedy="leave columns out of the schema file, or part the table at its source",
        )


def check_columns(fields: Fields, *, what: str) -> None:
    """Raise `UnsupportedError` for a table with too many columns, or nested too deeply."""
    check_count(sum(field.size for field in fields), what=f"{what}, counting members of STRUCTs,")
    deepest = max(fields, key=lambda field: field.depth)
    if deepest.depth > NESTING:
        raise UnsupportedError(
            f"{what} nests {deepest.depth} STRUCTs in column {deepest.name!r}, and BigQuery takes {NESTING}",
            remedy="leave the column out of the schema file",
        )


def check_authorized(known: int, *, dataset: str) -> None:
    """Raise `UnsupportedError` if as many views may read a dataset as BigQuery allows."""
    if known >= AUTHORIZED:
        raise UnsupportedError(
            f"{dataset} lets {known:,} views read it, and BigQuery takes {AUTHORIZED:,}",
            remedy="authorize the dataset of the views instead, and set `bigquery.authorize_views: false`",
        )


def shortened(text: str, *, most: int) -> str:
    """Return a description of at most `most` characters.

    >>> shortened("map<text, int>", most=8)
    'map<tex…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
