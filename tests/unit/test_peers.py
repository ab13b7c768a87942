"""What the documents say of peers, shown: docs/explanation/comparison.md names this file."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from cdc_views_spark.java import cache_folder

ROW_LEVEL = b"SupportsRowLevelOperations"
"""What a table of Spark's catalog is that its AUTO CDC flow can write."""
REFUSED = b"AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE"
"""The error of that flow for any other table."""


PLANNING = ("Rewrite", "MergeIntoTable", "UpdateTable", "RowLevelOperation", "SupportsRowLevelOperations", "AutoCdc")
"""What the classes begin with that plan such operations, whatever the table."""


def targets(jar: Path) -> list[str]:
    """The classes of a jar that name row-level operations and do not plan them: a table that has these would be one."""
    with ZipFile(jar) as opened:
        classes = [name for name in opened.namelist() if name.endswith(".class") and ROW_LEVEL in opened.read(name)]
    return [name for name in classes if not name.rpartition("/")[2].startswith(PLANNING)]


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
    assert not [name for jar in spark.glob("spark-*.jar") for name in targets(jar)], "a target exists: race it"
    assert REFUSED in writer
    (jar,) = cache_folder().glob("jars-delta-spark_4.2*/delta-spark_4.2*.jar")
    with ZipFile(jar) as opened:
        assert ROW_LEVEL not in opened.read("org/apache/spark/sql/delta/catalog/DeltaTableV2.class")
