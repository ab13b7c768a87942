"""`spark/jobs/kafka.py`: what it makes of Kafka's records is a table that a project reads.

Its Kafka source needs a jar that was not to be had for Spark 4.2.0 (`spark-token-provider-kafka-0-10_2.13`), so records are
made here.
"""

from __future__ import annotations

import importlib.util
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.command_line import CommandLine, table, write_project

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.spark
JOB = Path(__file__).parents[2] / "spark" / "jobs" / "kafka.py"
SCHEMA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def job() -> Any:
    spec = importlib.util.spec_from_file_location("kafka_job", JOB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_records_become_a_table_that_views_read(spark_engine: SparkEngine, run: CommandLine, tmp_path: Path) -> None:
    sent = [("a", {"id": "a", "age": 1}), ("b", {"id": "b", "age": 1}), ("a", {"id": "a", "age": 2}), ("b", None)]
    records = [
        (key.encode(), None if row is None else json.dumps(row).encode(), "users", 0, offset, AT, 0)
        for offset, (key, row) in enumerate(sent)
    ]
    frame = job().rows_of(spark_engine._session.createDataFrame(records, SCHEMA))
    frame.write.format("delta").save(str(tmp_path / "found"))
    (tmp_path / "users.sql").write_text("CREATE TABLE s.users (id text PRIMARY KEY, age int);")
    write_project(table("s.users", "users.sql", "key-value", raw={"layout": "as-found", "table": "found"}))
    assert run.query("s.users") == [{"id": "a", "age": 2}]
