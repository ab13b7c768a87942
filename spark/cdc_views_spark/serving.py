"""Serving tables by Spark: rows computed as a DataFrame, committed by Delta's own writer."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from cdc_views.engines.serving import ServingWrite, order_of, plan_of, serving_schema
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.order import LIFT, SHIFT
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.sql.dialects.spark import Spark
from cdc_views_spark.commits import committing, setting
from cdc_views_spark.compile import Compiler
from cdc_views_spark.state import parts_of_sources

_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
"""Timestamps in Parquet's own type: other readers do not see that those of Spark's INT96 are in UTC."""


def write_serving(session: SparkSession, write: ServingWrite) -> None:
    """See `Engine.write_serving`."""
    with committing(write), setting(session, _TIMESTAMPS, "TIMESTAMP_MICROS"):
        _commit(_rows(session, write), write)


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
