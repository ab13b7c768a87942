"""Rows of a DataFrame, partition by partition, so that the driver never holds all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import DataFrame, Row, SparkSession

from cdc_views_spark.choosing import BYTES_PER_TASK, Facts, tasks_of
from cdc_views_spark.settings import setting

_SHUFFLES = "spark.sql.shuffle.partitions"
_ADVISED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"


def batches_of(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    """Run all of a plan but its last stage; return the rows in order, of which the driver holds one partition at a time.

    Each row that leaves the tasks is a batch: to pickle the rows themselves takes several times as long. Both steps raise
    `PySparkException`.
    """
    return _unpacked(frame.mapInArrow(_pack, "batch binary").toLocalIterator())


def _unpacked(packed: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    try:
        for row in packed:
            yield from pa.ipc.open_stream(row["batch"])
    except Py4JJavaError as error:  # PySpark captures errors of the JVM in calls, not while it reads rows from a socket
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise convert_exception(cause) from error


@contextmanager
def in_small_partitions(session: SparkSession, facts: Facts) -> Iterator[None]:
    """Let Spark spread what it shuffles in this block over so many partitions that each is small."""
    usual = int(session.conf.get(_SHUFFLES, "200") or 200)
    with ExitStack() as settings:
        if facts.bytes is not None:
            settings.enter_context(setting(session, _SHUFFLES, str(max(usual, tasks_of(facts)))))
        settings.enter_context(setting(session, _ADVISED, str(BYTES_PER_TASK)))
        yield


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.record_batch({"batch": [sink.getvalue().to_pybytes()]})
