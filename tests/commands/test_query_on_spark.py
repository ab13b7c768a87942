"""`query` on Spark hands rows on partition by partition; where an answer is too large for the driver, it says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.histories import NOW, histories
from helpers.killed_states import FAST_JVM
from helpers.reading import land
from helpers.schemas import NARROW
from helpers.tiny_project import event, make_project, write_lines

from cdc_views.engines.base import Read
from cdc_views.errors import UnsupportedError
from cdc_views.model.strategy import Strategy

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = pytest.mark.spark
SMALLEST = "spark.sql.adaptive.coalescePartitions.minPartitionSize"


@pytest.mark.parametrize("strategy", [Strategy.AGGREGATE, Strategy.KERNEL])
def test_batches_are_the_rows_in_order(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: Strategy
) -> None:
    """Several partitions, each of several batches."""
    from cdc_views_spark import choosing, row_batches

    raw = land(tmp_path, NARROW.relation, histories(NARROW, cases=60, seed=1).facts)
    monkeypatch.setattr(choosing, "BYTES_PER_TASK", 4_000)
    monkeypatch.setattr(row_batches, "BYTES_PER_TASK", 4_000)
    spark_engine.session.conf.set(SMALLEST, "1b")
    read = Read(raw, as_of=NOW, strategy=strategy)
    found = list(spark_engine.batches(read))
    assert pa.Table.from_batches(found).to_pylist() == spark_engine.read(read).to_pylist()
    spark_engine.session.conf.unset(SMALLEST)
    assert len(found) > (strategy is Strategy.AGGREGATE), "one task of the kernel takes a small table"


def cdc_views(*arguments: str) -> tuple[int, str, str]:
    """Run a command in a process of its own: only a new JVM has other settings."""
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": FAST_JVM}
    done = subprocess.run([sys.executable, "-m", "cdc_views", *arguments], env=environment, capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.slow
def test_an_answer_that_is_too_large_names_a_remedy_which_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = make_project(tmp_path)
    settings = {"spark.driver.maxResultSize": "200k"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "engine": "spark", "spark": {"settings": settings}}))
    write_lines(Path("events.jsonl"), *(event(n, state=random_text(n)) for n in range(1_000)))
    assert cdc_views("land", "cassandra-mutation", "events.jsonl", "--table", "shop.orders")[0] == 0
    code, out, err = cdc_views("query", "shop.orders", "--format", "jsonl")
    assert (code, out) == (3, "")
    assert "larger than the driver takes (spark.driver.maxResultSize)" in err
    assert "`query --out rows.parquet` or `query --into TABLE`" in err
    assert cdc_views("query", "shop.orders", "--out", "rows.parquet")[0] == 0
    assert pq.read_table("rows.parquet").num_rows == 1_000


def random_text(seed: int) -> str:
    return Random(seed).randbytes(400).hex()


def test_what_executors_do_not_see_is_refused(spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster whose machines share no folder: what an executor writes would be lost."""
    from cdc_views_spark import writing

    raw = land(tmp_path, NARROW.relation, histories(NARROW, cases=5, seed=1).facts)
    read = Read(raw, as_of=NOW, strategy=Strategy.KERNEL)
    monkeypatch.setattr(writing, "is_local", lambda session: False)
    assert spark_engine.write_files(read, tmp_path / "seen")
    monkeypatch.setattr(Path, "write_text", lambda self, *_: None)
    monkeypatch.setattr(Path, "unlink", lambda self, **_: None)
    with pytest.raises(UnsupportedError, match=r"executors do not see .* of this machine; name a folder that all share"):
        spark_engine.write_files(read, tmp_path / "unseen")


def test_without_arrow_in_tasks_the_rows_are_collected(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdc_views_spark import engine, executors

    raw = land(tmp_path, NARROW.relation, histories(NARROW, cases=5, seed=1).facts)
    read = Read(raw, as_of=NOW, strategy=Strategy.AGGREGATE)
    assert executors._maps(spark_engine.session)
    monkeypatch.setattr(engine, "has_arrow", lambda session: False)
    monkeypatch.setattr(engine, "batches_of", None)
    assert pa.Table.from_batches(spark_engine.batches(read)).to_pylist() == spark_engine.read(read).to_pylist()
