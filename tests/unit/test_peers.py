"""What the documents say of peers, shown: docs/comparison.md names this file."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZipFile

import pytest

ROW_LEVEL = b"SupportsRowLevelOperations"
"""What a table of Spark's catalog is that its AUTO CDC flow can write."""
REFUSED = b"AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE"
"""The error of that flow for any other table."""


def test_open_source_spark_has_auto_cdc_of_type_1() -> None:
    from pyspark.pipelines import create_auto_cdc_flow

    assert "Only 1" in (create_auto_cdc_flow.__doc__ or "")


@pytest.mark.spark
def test_auto_cdc_asks_for_row_level_operations_and_deltas_catalog_table_has_none() -> None:
    spark = Path(str(__import__("pyspark").__file__)).parent / "jars"
    (pipelines,) = spark.glob("spark-pipelines_*.jar")
    with ZipFile(pipelines) as opened:
        writer = opened.read("org/apache/spark/sql/pipelines/graph/AutoCdcMergeWriteBase.class")
    assert ROW_LEVEL in writer
    assert REFUSED in writer
    cache = Path(os.environ.get("CDC_VIEWS_CACHE", Path(__file__).parents[2] / ".cache"))
    (jar,) = cache.glob("jars-delta-spark_4.2*/delta-spark_4.2*.jar")
    with ZipFile(jar) as opened:
        assert ROW_LEVEL not in opened.read("org/apache/spark/sql/delta/catalog/DeltaTableV2.class")
