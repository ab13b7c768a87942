"""States and serving tables by DuckDB: SQL reduces the facts; Arrow writes the files of states, deltalake serving tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import CommitProperties, Transaction

from cdc_views.engines import serving, state_plan
from cdc_views.engines.base import StateWrite, ValueForm, Written
from cdc_views.engines.duckdb.connections import in_its_words, with_stores
from cdc_views.engines.duckdb.files import written
from cdc_views.engines.duckdb.tables import placed
from cdc_views.engines.duckdb.types import quoted, type_text
from cdc_views.engines.serving import NOTE, ServingWrite, for_form
from cdc_views.landing.delta import commit, open_delta
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.order import LIFT, SHIFT
from cdc_views.plan.parts import Source
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.sql.dialects.duckdb import DuckDb
from cdc_views.sql.render import Renderer
from cdc_views.storage.places import place_of

_BATCH_ROWS = 100_000


def write_state(connection: duckdb.DuckDBPyConnection, write: StateWrite, *, tables: Mapping[Source, str]) -> Written:
    """See `Engine.write_state`; `tables` are FROM clauses of the facts."""
    relation = write.sources.raw.relation
    # a purge reads each fact twice: for the parts that stay, and for the parts that leave
    renderer = Renderer(DuckDb(), table=tables[Source.ALL], tables=tables, computes_once=write.purges)
    columns = [*map(_typed, relation.arrow_schema()), quoted(PART)]
    with in_its_words():
        replaced = _replaced(connection, write, tables)
        rows = _sorted(connection, columns, renderer.sql(state_plan.plan_of(write)), state_plan.order_of(relation))
        return Written(written(place_of(write.target), rows, relation.arrow_schema()), replaced)


def _replaced(connection: duckdb.DuckDBPyConnection, write: StateWrite, tables: Mapping[Source, str]) -> dict[str, Iterable[int]]:
    plan = state_plan.replaced_by(write)
    if plan is None:
        return {}
    base = {**tables, Source.BASE: placed(write.sources.paths(Source.BASE))}
    rows = Renderer(DuckDb(), table=tables[Source.ALL], tables=base).sql(plan)
    file, position = quoted(names.FILE), quoted(names.POSITION)
    return dict(
        with_stores(connection, rows).sql(f"SELECT {file}, list({position}) FROM ({rows}) AS replaced GROUP BY {file}").fetchall()
    )


def write_serving(connection: duckdb.DuckDBPyConnection, write: ServingWrite, *, tables: Mapping[Source, str]) -> None:
    """See `Engine.write_serving`; `tables` are FROM clauses of the facts."""
    shown = Renderer(for_form(DuckDb(), ValueForm.HELD), table=tables[Source.ALL], tables=tables).sql(serving.plan_of(write))
    columns = map(_served, serving.serving_schema(write.relation))
    name, number = write.transaction
    properties = CommitProperties(custom_metadata={NOTE: write.note}, app_transactions=[Transaction(name, number)])
    what: dict[str, Any] = {"schema_mode": "overwrite"} if write.replaced is None else {"predicate": write.replaced}
    with in_its_words():
        rows = _sorted(connection, columns, shown, serving.order_of(write.relation))
        commit(open_delta(write.target, version=write.version), rows, properties, mode="overwrite", **what)


def _served(field: pa.Field) -> str:
    if field.name == CHANGES_AT:
        return f"((-CAST({quoted(names.SOONEST)} AS BIGINT)) >> {SHIFT}) + {LIFT} AS {quoted(CHANGES_AT)}"
    return _typed(field)


def _typed(field: pa.Field) -> str:
    return f"CAST({quoted(field.name)} AS {type_text(field.type)}) AS {quoted(field.name)}"


def _sorted(
    connection: duckdb.DuckDBPyConnection, columns: Iterable[str], rows: str, order: Iterable[str]
) -> pa.RecordBatchReader:
    sql = f"SELECT {', '.join(columns)} FROM ({rows}) AS computed ORDER BY {', '.join(map(quoted, order))}"
    return with_stores(connection, sql).sql(sql).to_arrow_reader(_BATCH_ROWS)
