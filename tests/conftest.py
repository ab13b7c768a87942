"""Fixtures of the whole suite: the real cases, one engine of each kind."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_views.engines.duckdb import DuckDbEngine

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def cassandra_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the real cases: for each table node1..3.jsonl, schema.cql, expected_early.json, expected_late.json."""
    folder = tmp_path_factory.mktemp("cassandra_cases")
    with tarfile.open(DATA / "cassandra_cases.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[DuckDbEngine]:
    """DuckDB in memory."""
    with DuckDbEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def spark_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Spark; one JVM for the whole run."""
    pytest.importorskip("pyspark")
    from cdc_views_spark.engine import SparkEngine
    from cdc_views_spark.session import open_session

    with SparkEngine(open_session(warehouse=tmp_path_factory.mktemp("warehouse"), memory="2g")) as engine:
        yield engine
