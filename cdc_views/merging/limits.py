"""What BigQuery refuses for its size, checked before anything is sent.

Source: Google Cloud, BigQuery, "Quotas and limits" (cloud.google.com/bigquery/quotas).
"""

from __future__ import annotations

from cdc_views.errors import UnsupportedError

MOST_BYTES = 1024 * 1024
"""Query jobs, "Maximum unresolved GoogleSQL query length"; a script is one query."""
MOST_VIEW_CHARACTERS = 256 * 1024
"""Views, "Maximum length of a standard SQL query used to define a view"."""


def fits(sql: str) -> bool:
    """Whether a script can be sent."""
    return len(sql.encode()) <= MOST_BYTES


def check_script(sql: str, *, what: str) -> None:
    """Raise `UnsupportedError` for a script that is too long to be sent."""
    if not fits(sql):
        raise UnsupportedError(
            f"{what} takes {len(sql.encode()):,} bytes, and BigQuery takes at most {MOST_BYTES:,}",
            remedy="leave columns out of the schema file, keep no serving table, or materialize on duckdb or spark",
        )


def check_view(sql: str, *, what: str) -> None:
    """Raise `UnsupportedError` for a view that is too long to be kept."""
    if len(sql) > MOST_VIEW_CHARACTERS:
        raise UnsupportedError(
            f"{what} takes {len(sql):,} characters, and BigQuery keeps views of at most {MOST_VIEW_CHARACTERS:,}",
            remedy="set no lateness, or leave columns out of the schema file",
        )
