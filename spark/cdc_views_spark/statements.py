"""Users' queries over merged tables, in Spark: each table is a temporary view of its DataFrame while the query is analyzed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from cdc_views.engines.base import BATCH_ROWS, Read, StatementRead, StatementRows
from cdc_views.sql import check_names
from cdc_views_spark.choosing import Facts
from cdc_views_spark.executors import has_arrow
from cdc_views_spark.kernel import task_errors
from cdc_views_spark.row_batches import batches_of, in_small_partitions
from cdc_views_spark.statement_check import check
from cdc_views_spark.writing import in_its_words


def run_over(session: SparkSession, asked: StatementRead, frames: Mapping[str, DataFrame]) -> StatementRows:
    """Run a statement over `frames`, the rows of each table by its full name."""
    # a name that nobody else of the session has
    views = {table: f"cdc_views_{uuid4().hex}" for table in frames}
    with in_its_words():
        try:
            for table, frame in frames.items():
                check_names(asked.reads[table].raw.relation, "spark")
                frame.createOrReplaceTempView(views[table])
            text = asked.text(views)
            check(session, text, views=frozenset(views.values()))
            rows = session.sql(text)
            schema = to_arrow_schema(rows.schema, timezone="UTC")
        finally:
            for view in views.values():
                session.catalog.dropTempView(view)
    return StatementRows(schema, _batches(session, rows, schema, list(asked.reads.values())))


def _batches(session: SparkSession, rows: DataFrame, schema: pa.Schema, reads: list[Read]) -> Iterator[pa.RecordBatch]:
    with in_its_words(), task_errors():
        if has_arrow(session):
            with ExitStack() as settings:
                for read in reads:
                    settings.enter_context(in_small_partitions(session, Facts.of(session, read)))
                found = batches_of(rows)
        else:
            found = iter(rows.toArrow().to_batches(max_chunksize=BATCH_ROWS))
        for batch in found:
            yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
