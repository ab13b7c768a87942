"""The Parquet files of a raw table, for tools that run our SQL on DuckDB themselves: dbt-duckdb, SQLMesh.

Their models are `read_parquet` of a session variable, which is set to the files of now before each run: nothing is copied, and no
export is needed after landing.
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
    """Return a name for a table of letters, digits and `_` alone: its parts joined with two underscores.

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
    """Return Parquet files of the raw table's facts as of now, the first of them empty: it has every column.

    Rows that deletion vectors hide are in the active files; such a table's others are copied into `folder`. Raises `UsageError`
    where older events were dropped: `what` is made of raw alone and would lose rows.
    """
    adapted(table)
    check_raw_is_whole(table, what=what)
    snapshot = snapshot_of(table.raw)
    layout = folder / f"{plain_name(table.name)}.parquet"
    schema = table.relation.arrow_schema()
    rows = schema.empty_table() if snapshot.arrow is None else snapshot.arrow.select(schema.names).cast(schema)
    pq.write_table(rows, layout)
    return [str(layout), *snapshot.files]
