"""Catalogs in processes of their own, as users have them: Hive's metastore, one without views, one with tables on a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.catalog_projects import FORMAT, NAME, write_project
from helpers.tables_only import CLASS, classes
from helpers.tiny_project import event, write_lines
from services import hive, s3
from services.hive import HiveMetastore

pytestmark = [pytest.mark.spark, pytest.mark.live]

RAW = "spark_catalog.cdc.orders"
_WITHIN = 400
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Few rows are read in less time than Java is written and compiled for them."""
COMMANDS = """
import json, sys
from cdc_views.cli import main
codes = [main(command) for command in json.loads(sys.argv[1])]
print(json.dumps(codes))
"""
"""Commands one after the other, each with a session of its own, in one JVM."""
NAMES = """
import json, sys
from cdc_views import Project
from cdc_views.model.catalog_names import CatalogName
*tables, view = json.loads(sys.argv[1])
with Project.load().engine() as engine:
    found = [engine.locate(CatalogName.parse(name)) for name in tables]
    rows = sorted(tuple(row) for row in engine.session.sql(f"SELECT id FROM {view}").collect())
print(json.dumps([*found, rows]))
"""
"""Where a later session of the project finds the tables, and what the view shows there."""
READER = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
print(json.dumps([sorted(tuple(row) for row in session.sql(query).collect()) for query in json.loads(sys.argv[2])]))
assert not [name for name in sys.modules if name.startswith("cdc_views")]
"""


@pytest.fixture(scope="module")
def metastore() -> Iterator[HiveMetastore]:
    """A Hive metastore."""
    with hive.running() as server:
        yield server


def python(program: str, *arguments: Any) -> tuple[Any, str]:
    """Run a program in a process of its own; return what its last line says, and what it wrote to standard error."""
    from cdc_views_spark.java import cache_folder, java_home

    java = {"JAVA_HOME": str(java_home(cache_folder())), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", program, *map(json.dumps, arguments)]
    answer = subprocess.run(command, env={**os.environ, **java}, capture_output=True, text=True, timeout=_WITHIN, check=False)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(answer.stdout.splitlines()[-1]), answer.stderr


def plain_session(settings: dict[str, str]) -> dict[str, str]:
    """The settings of a session that knows Delta, and nothing of cdc-views."""
    from cdc_views_spark.session import delta_jars

    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, delta_jars())),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        **INTERPRETED,
        **settings,
    }


def test_a_hive_metastore_has_raw_view_state_and_serving(
    metastore: HiveMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyspark

    monkeypatch.chdir(tmp_path)
    spark = {"settings": {**metastore.settings(), **INTERPRETED}}
    write_project(RAW, catalog="spark_catalog", spark=spark, table={"materialize": {"serving": True}})
    first, second = write_lines(Path("first.jsonl"), event(1), event(2)), write_lines(Path("second.jsonl"), event(3))
    landing = ["land", FORMAT, "--table", NAME]
    codes, said = python(COMMANDS, [[*landing, str(first)], ["apply"], ["materialize"], [*landing, str(second)]])
    assert codes == [0, 0, 0, 0], said
    assert (metastore.warehouse / "cdc.db" / "orders" / "_delta_log").is_dir()
    names = ("shop.orders", "spark_catalog.shop.orders__serving", "spark_catalog.shop.orders__state", RAW)
    queries = [f"SELECT DISTINCT id FROM {name}" for name in names]
    found, _ = python(READER, plain_session(metastore.settings()), queries)
    assert found == [[[1], [2], [3]], [[1], [2]], [[1], [2]], [[1], [2], [3]]]
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("hive-metastore-*.jar")
    assert jar.name == "hive-metastore-2.3.10.jar", "the release that docs/how-to/catalogs.md names"


def test_errors_of_a_metastore(metastore: HiveMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(Path("events.jsonl"), event(1))
    gone = {**metastore.settings(), "spark.hadoop.hive.metastore.uris": "thrift://127.0.0.1:1"}
    tries = {"hive.metastore.connect.retries": "1", "hive.metastore.failure.retries": "0"}
    write_project(RAW, spark={"settings": {**gone, **{f"spark.hadoop.{name}": value for name, value in tries.items()}}})
    codes, said = python(COMMANDS, [["land", FORMAT, "--table", NAME, "events.jsonl"]])
    assert codes == [3]
    assert f"error: {RAW}: catalog spark_catalog does not answer" in said, said
    assert "start its server, or correct its address" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_catalog_without_views_has_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = {"spark.sql.catalog.lake": CLASS, "spark.driver.extraClassPath": str(classes(tmp_path / "classes"))}
    write_project("lake.cdc.`my_orders`", catalog="lake", spark={"settings": {**catalog, **INTERPRETED}})
    write_lines(Path("events.jsonl"), event(1), event(2))
    landing = ["land", FORMAT, "--table", NAME, "events.jsonl"]
    codes, said = python(COMMANDS, [landing, ["materialize"], ["apply"], ["status"]])
    assert codes == [0, 0, 0, 0], said
    assert "lake.shop.orders: catalog lake takes no views; the tables are registered" in said
    assert "lake.shop.orders__state is registered" in said
    assert Path("warehouse/spark/cdc.db/my_orders/_delta_log").is_dir()
    names = json.loads(next(Path("warehouse/_cdc_views/applied").glob("*.catalog.json")).read_text())
    assert names == {"lake.shop.orders__state": str(tmp_path / "warehouse/state/shop_orders/1")}


@pytest.mark.slow
def test_a_catalog_names_tables_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    write_lines(Path("events.jsonl"), event(1), event(2))
    with s3.running(tmp_path) as store:
        lake = f"{store.url()}/lake"
        metastore = f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
        kept = {"spark.sql.warehouse.dir": f"{lake}/tables", "spark.hadoop.javax.jdo.option.ConnectionURL": metastore}
        told = {"warehouse": f"{lake}/shop", "storage_options": store.options()}
        write_project(RAW, catalog="spark_catalog", spark={"settings": {**kept, **INTERPRETED}}, **told)
        landing = ["land", FORMAT, "--table", NAME, "events.jsonl"]
        codes, said = python(COMMANDS, [landing, ["materialize", "--engine", "duckdb"], ["apply"], ["plan"], ["status"]])
        assert codes == [0, 0, 0, 0, 0], said
        assert "spark_catalog.shop.orders__state is registered" in said
        found, _ = python(NAMES, [RAW, "spark_catalog.shop.orders__state", "spark_catalog.shop.orders"])
        assert found == [f"{lake}/tables/cdc.db/orders", f"{lake}/shop/state/shop_orders/1", [[1], [2]]]
