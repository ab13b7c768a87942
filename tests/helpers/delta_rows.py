"""The rows of a Delta table as deltalake shows them, deletion vectors included."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def shown(table: DeltaTable, *, where: str = "true") -> pa.Table:
    """The rows that fulfil a condition."""
    names = ", ".join(f'"{field.name}"' for field in table.schema().fields)
    sql = f"SELECT {names} FROM shown WHERE {where}"
    return pa.table(QueryBuilder().register("shown", table).execute(sql).read_all())
