"""Serving tables by Spark: rows computed as a DataFrame, committed by Delta's own writer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from cdc_views.engines.serving import ServingWrite, order_of, plan_of, serving_schema
from cdc_views.errors import EngineError
from cdc_views.landing.delta import recorded
from cdc_views.landing.digests import note_missing
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.expiry import LIFT, SHIFT
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.sql.dialects.spark import Spark
from cdc_views.storage.conflicts import ConflictError
from cdc_views_spark.compile import Compiler
from cdc_views_spark.state import parts_of_sources

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


def write_serving(session: SparkSession, write: ServingWrite) -> None:
    """See `Engine.write_serving`.

    Delta skips a write whose transaction number is not above the recorded one, without a word; so what is recorded
    is looked at afterwards.
    """
    name, number = write.transaction
    if (recorded(DeltaTable(write.target), name) or -1) >= number:
        raise ConflictError(f"{write.target}: another run committed first")
    try:
        with _plain_timestamps(session):
            _commit(_rows(session, write), write)
    except PySparkException as error:
        if "Concurrent" in str(error) or "DELTA_CONCURRENT" in str(error):
            raise ConflictError(f"{write.target}: another run committed first") from error
        raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error
    written = DeltaTable(write.target)
    if recorded(written, name) != number:
        raise ConflictError(f"{write.target}: another run committed first")
    note_missing(written)


@contextmanager
def _plain_timestamps(session: SparkSession) -> Iterator[None]:
    """Timestamps in Parquet's own type while this lasts: of Spark's INT96 other readers do not see that it is in UTC."""
    before = session.conf.get(_TIMESTAMPS)
    session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        session.conf.set(_TIMESTAMPS, str(before))


def _rows(session: SparkSession, write: ServingWrite) -> DataFrame:
    """One file for each bucket, sorted by key."""
    dialect = Spark()
    dialect.holds_any_field = False
    shown = Compiler(parts_of_sources(session, write.sources), dialect=dialect).dataframe(plan_of(write))
    typed = shown.select(*map(_column, serving_schema(write.relation)))
    spread = typed.repartition(F.col(PART)) if write.digits else typed.coalesce(1)
    return spread.sortWithinPartitions(*(_quoted(name) for name in order_of(write.relation)))


def _column(field: pa.Field) -> Column:
    if field.name == CHANGES_AT:
        return (F.shiftright(-F.col(names.SOONEST).cast("bigint"), SHIFT) + F.lit(LIFT)).alias(CHANGES_AT)
    return _quoted(field.name).cast(from_arrow_type(field.type, prefer_timestamp_ntz=True)).alias(field.name)


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _commit(rows: DataFrame, write: ServingWrite) -> None:
    name, number = write.transaction
    writer = rows.write.format("delta").mode("overwrite").option("userMetadata", write.note)
    writer = writer.option("txnAppId", name).option("txnVersion", number)
    if write.replaced is None:
        writer = writer.option("overwriteSchema", "true")
    else:
        writer = writer.option("replaceWhere", write.replaced)
    writer.partitionBy(PART).save(write.target)
