"""Arrow types as BigQuery's: the scalars, and what has no type there."""

from __future__ import annotations

import pyarrow as pa

from cdc_views.errors import UnsupportedError
from cdc_views.sql.dialects.bigquery import decimal_name

_SCALARS = (
    (pa.types.is_integer, "INT64"),
    (pa.types.is_floating, "FLOAT64"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_binary, "BYTES"),
    (pa.types.is_boolean, "BOOL"),
    (pa.types.is_date, "DATE"),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, "TIMESTAMP"),
    (pa.types.is_timestamp, "DATETIME"),
)
CLUSTERABLE = frozenset({"INT64", "STRING", "BOOL", "NUMERIC", "BIGNUMERIC", "TIMESTAMP", "DATETIME", "DATE"})
"""Source: BigQuery, Introduction to clustered tables, Cluster column types; BYTES and FLOAT64 are none of them."""


def scalar_type(kind: pa.DataType) -> str:
    """Return GoogleSQL's name of a type that is neither list, map nor struct.

    >>> scalar_type(pa.timestamp("us", tz="UTC"))
    'TIMESTAMP'
    """
    if pa.types.is_decimal(kind):
        return decimal_name(kind.precision, kind.scale)
    return next(name for fits, name in _SCALARS if fits(kind))


def refuse_lists_in_lists(where: str) -> UnsupportedError:
    """Return the error that says that `where`, a table's column, cannot be kept."""
    return UnsupportedError(
        f"{where} holds lists within lists, and BigQuery has no ARRAY of ARRAY", remedy="leave the column out of the schema file"
    )
