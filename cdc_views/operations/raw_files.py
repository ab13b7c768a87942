"""The Parquet files of a raw table, for tools that run our SQL on DuckDB themselves: dbt-duckdb, SQLMesh. Their models call
`read_parquet` on a session variable, which lists the current files before each run: nothing is copied or exported after landing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from cdc_views.engines.snapshot import snapshot_of
from cdc_views.model.naming import physical_name
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import adapted, check_raw_is_whole


def plain_name(table: str) -> str:
    """Return a name for a table with only letters, digits and `_`: its parts, joined with two underscores.

    >>> plain_name("shop.orders"), plain_name("shop.OrderItems")
    ('shop__orders', 'shop__x__4frder_49tems')
    """
    return "__".join(physical_name(part) for part in table.split("."))


def raw_variable(table: str) -> str:
    """Return the name of the DuckDB variable that lists the files of a raw table."""
    return f"cdc_views_raw_{plain_name(table)}"


def set_variable(variable: str, files: Sequence[str]) -> str:
    """Return the statement that sets a variable to a list of files."""
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    return f"SET VARIABLE {variable} = [{listed}]"


def files_of(table: TableContext, folder: Path, *, what: str) -> list[str]:
    """Return the current Parquet files of the raw table's facts; the first is empty and has every column.

    For a table with deletion vectors, copies the rows that they do not hide into `folder`. Raises `UsageError` if older events
    were dropped, because `what` is built from raw alone and would lose rows.
    """
    adapted(table)
    check_raw_is_whole(table, what=what)
    snapshot = snapshot_of(table.raw)
    layout = folder / f"{plain_name(table.name)}.parquet"
    schema = table.relation.arrow_schema()
    rows = schema.empty_table() if snapshot.arrow is None else snapshot.arrow.select(schema.names).cast(schema)
    pq.write_table(rows, layout)
    return [str(layout), *snapshot.files]
