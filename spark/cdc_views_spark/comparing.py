"""Compares what a view of a catalog shows with a query."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import struct, to_json

from cdc_views_spark.writing import in_its_words


def rows_that_differ(session: SparkSession, name: str, query: str) -> int:
    """Return in how many rows the view and the query differ; if the view is gone or has other columns, in all, at least in one.

    Raises `EngineError` if one of them cannot be read.
    """
    with in_its_words():
        now = session.sql(query)
        if not session.catalog.tableExists(name) or _columns(shown := session.table(name)) != _columns(now):
            return max(int(now.count()), 1)
        one, other = _comparable(shown), _comparable(now)
        # one query, so that both have the same clock
        return int(one.exceptAll(other).unionAll(other.exceptAll(one)).count())


def _columns(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


def _comparable(frame: DataFrame) -> DataFrame:
    """Each row as text: Spark compares no maps."""
    return frame.select(to_json(struct("*"), {"ignoreNullFields": "false"}).alias("row"))
