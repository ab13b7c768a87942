"""Serving tables by DuckDB: rows computed by SQL, committed by deltalake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, Transaction

from cdc_views.engines.duckdb.types import quoted, type_text
from cdc_views.engines.serving import ServingWrite, order_of, plan_of, serving_schema
from cdc_views.errors import EngineError
from cdc_views.landing.delta import commit, open_delta
from cdc_views.plan import names
from cdc_views.plan.order import LIFT, SHIFT
from cdc_views.plan.parts import Source
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.sql.dialects.duckdb import DuckDb
from cdc_views.sql.render import Renderer

NOTE = "cdc-views"
"""Key of a commit's note in its metadata; Spark's commits have it as `userMetadata`."""
_BATCH_ROWS = 100_000


def write_serving(connection: duckdb.DuckDBPyConnection, write: ServingWrite, *, tables: Mapping[Source, str]) -> None:
    """See `Engine.write_serving`; `tables` are the facts as they stand after FROM."""
    try:
        rows = connection.sql(_rows_sql(write, tables)).to_arrow_reader(_BATCH_ROWS)
        _commit(write, rows)
    except duckdb.Error as error:
        raise EngineError(f"DuckDB: {str(error).splitlines()[0]}") from error


def _rows_sql(write: ServingWrite, tables: Mapping[Source, str]) -> str:
    dialect = DuckDb()
    dialect.holds_any_field = False
    rows = Renderer(dialect, table=tables[Source.ALL], tables=tables).sql(plan_of(write))
    columns = ", ".join(_column(field) for field in serving_schema(write.relation))
    order = ", ".join(map(quoted, order_of(write.relation)))
    return f"SELECT {columns} FROM ({rows}) AS shown ORDER BY {order}"


def _column(field: pa.Field) -> str:
    if field.name == CHANGES_AT:
        return f"((-CAST({quoted(names.SOONEST)} AS BIGINT)) >> {SHIFT}) + {LIFT} AS {quoted(CHANGES_AT)}"
    return f"CAST({quoted(field.name)} AS {type_text(field.type)}) AS {quoted(field.name)}"


def _commit(write: ServingWrite, rows: pa.RecordBatchReader) -> None:
    name, number = write.transaction
    properties = CommitProperties(custom_metadata={NOTE: write.note}, app_transactions=[Transaction(name, number)])
    what: dict[str, Any] = {"schema_mode": "overwrite"} if write.replaced is None else {"predicate": write.replaced}
    commit(open_delta(write.target, version=write.version), rows, properties, mode="overwrite", **what)
