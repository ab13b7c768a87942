"""Fixtures of the whole suite: the real cases, one engine of each kind."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

pytest.register_assert_rewrite("helpers")

from helpers.bigquery_project import RemoteProject, is_asked_for, remote_project
from helpers.histories import NOW
from helpers.reading import CASES, STRATEGIES, Row, canonical_row, land, shown_by
from hypothesis import settings

from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import TableSchema
from cdc_views.model.strategy import Strategy
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.storage.relation import Relation

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine
    from services.trino import Trino

pytest_plugins = ["services.ending", "services.sharing"]
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
"""A process with gRPC (BigQuery's tests) would start gRPC's threads in what it forks too: they end 1 of 130 producers that tests
launch before these begin, when their files are closed."""

settings.register_profile("fast", max_examples=20, deadline=None)
"""`make test` and `make test-fast`; tests that ask for more examples ask for a multiple of the profile's."""

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def cassandra_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the real cases: for each table node1..3.jsonl, schema.cql, expected_early.json, expected_late.json."""
    folder = tmp_path_factory.mktemp("cassandra_cases")
    with tarfile.open(DATA / "cassandra_cases.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, and so count, tests of a real BigQuery project, unless one is named; `make test-live-bigquery` runs them."""
    if is_asked_for():
        return
    asleep = [item for item in items if item.get_closest_marker("bigquery_project")]
    items[:] = [item for item in items if item not in set(asleep)]
    if asleep:
        config.hook.pytest_deselected(items=asleep)


@pytest.fixture(scope="session")
def bigquery_project() -> Iterator[RemoteProject]:
    """A real project of BigQuery, with datasets of its own."""
    with remote_project() as remote:
        yield remote


@pytest.fixture(scope="session")
def duckdb_engine() -> Iterator[DuckDbEngine]:
    """DuckDB in memory."""
    with DuckDbEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def trino_server() -> Iterator[Trino]:
    """A Trino of this run's own; it starts in half a minute, so that all who ask one share it."""
    from services.trino import running

    with running() as server:
        yield server


_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Few rows are read in less time than Java is written and compiled for them: `make test` leaves that to `compiled` tests."""


@pytest.fixture(scope="session")
def spark_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """Spark; one JVM for the whole run. `make test-long` lets it compile, as it does for users. `auto` takes Spark's own plan."""
    pytest.importorskip("pyspark")
    from cdc_views_spark.engine import SparkEngine
    from cdc_views_spark.session import open_session
    from cdc_views_spark.stores import store_jars

    options = {} if CASES >= 3000 else _INTERPRETED
    # the store's jars too: one JVM for all tests
    jars = {"spark.driver.extraClassPath": os.pathsep.join(map(str, store_jars("s3://any")))}
    session = open_session(warehouse=tmp_path_factory.mktemp("warehouse"), memory="2g", options={**options, **jars})
    with SparkEngine(session, kernel_bytes=0) as engine:
        yield engine


@pytest.fixture(scope="session")
def kernel_engine(spark_engine: SparkEngine) -> SparkEngine:
    """The same session; `auto` takes the kernel for few bytes, as it does for users."""
    from cdc_views_spark.engine import SparkEngine

    return SparkEngine(spark_engine.session, stops=False)


@pytest.fixture
def compiled(spark_engine: SparkEngine) -> Iterator[None]:
    """Let Spark compile what it runs meanwhile."""
    settings = spark_engine.session.conf
    before = {name: settings.get(name) for name in _INTERPRETED}
    for name, value in (("spark.sql.codegen.wholeStage", "true"), ("spark.sql.codegen.factoryMode", "FALLBACK")):
        settings.set(name, value)
    yield
    for name, value in before.items():
        settings.set(name, value)


@pytest.fixture
def shown(request: pytest.FixtureRequest, duckdb_engine: DuckDbEngine, tmp_path: Path) -> Callable[..., list[Row]]:
    """What facts show: the oracle's rows, once every strategy on DuckDB gave the same ones in the same order.

    With CDC_VIEWS_SHOWN_BY=one (`make test`), one strategy: the test's name says which, so that all have their turn.

    Called with a schema and facts; `now` (NOW) is the instant of the read, `order` (MICROS) what write times are.
    """
    tables = count()
    turn = crc32(request.node.nodeid.encode()) % len(STRATEGIES)
    strategies = STRATEGIES[turn : turn + 1] if os.environ.get("CDC_VIEWS_SHOWN_BY") == "one" else STRATEGIES

    def ask(schema: TableSchema, *facts: Fact, now: int = NOW, order: WriteOrder = WriteOrder.MICROS) -> list[Row]:
        expected = latest_rows(schema, facts, now=now)
        raw = land(tmp_path, Relation(schema, order), facts, name=f"raw{next(tables)}")
        # whole rows have a way of their own, which only `auto` takes
        tried = (*strategies, Strategy.AUTO) if order is WriteOrder.LOG_POSITION else strategies
        for strategy, found in shown_by(duckdb_engine, raw, tried, as_of=now):
            assert list(map(canonical_row, found)) == list(map(canonical_row, expected)), f"{strategy.value}: {found}"
        return expected

    return ask
