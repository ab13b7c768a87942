"""A local Spark session with Delta, whose jars Spark's own Ivy fetches once."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from cdc_views.storage.places import Place
from cdc_views_spark.config import SparkConfig
from cdc_views_spark.ivy import fetched, leave_out
from cdc_views_spark.java import cache_folder, java_home
from cdc_views_spark.stores import store_in, store_jars, store_settings

DELTA_JAR = ("io.delta", "delta-spark_4.2_2.13", "4.4.0")
"""The coordinates that work with pyspark 4.2.0."""
_SPARK_HAS = ("scala-library", "slf4j", "antlr4-runtime", "jackson")
"""Spark has its own Scala and logging; two versions clash."""

_TRUSTED_ARROW = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
"""Rows of the kernel come from this machine's tasks, and Spark asks for nulls itself: to check each access again is a thirteenth
of a read."""


def delta_jars() -> list[Path]:
    """Return the Delta jars, fetched on the first call; raises `EngineError` if that fails."""
    folder = cache_folder() / f"jars-{DELTA_JAR[1]}-{DELTA_JAR[2]}"
    return sorted(fetched(DELTA_JAR, folder, finish=leave_out(_SPARK_HAS)).glob("*.jar"))


def configured(warehouse: Place, config: SparkConfig) -> SparkSession:
    """Return this process's open session, or a new one as `spark:` of the project file has it."""
    return open_session(warehouse=warehouse, memory=config.memory, options=dict(config.settings), master=config.master)


def open_session(
    *, warehouse: Place, cores: int = 2, memory: str = "2g", options: dict[str, str] | None = None, master: str | None = None
) -> SparkSession:
    """Return this process's open session, or a new one: UTC, ANSI, few partitions, a catalog inside `warehouse`.

    `CDC_VIEWS_SPARK_MASTER` names another master than this process's threads; its workers must see the same files.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    folder = _catalog_folder(warehouse)
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(java_home(cache_folder()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    store = store_in(str(warehouse))
    place = os.environ.get("CDC_VIEWS_SPARK_MASTER") or master or f"local[{cores}]"
    builder = SparkSession.builder.master(place).appName("cdc-views")
    settings = {**_settings(folder, memory), **store_settings(store), **(options or {})}
    jars = os.pathsep.join(map(str, [*delta_jars(), *store_jars(store)]))
    for part in ("driver", "executor"):
        path = f"spark.{part}.extraClassPath"
        settings[path] = os.pathsep.join(filter(None, (jars, settings.get(path, ""))))
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _catalog_folder(warehouse: Place) -> Path:
    """Return where the session's catalog is: in the warehouse, or for one on a store in a folder of this machine."""
    if isinstance(warehouse, Path):
        return warehouse
    return cache_folder() / "catalogs" / hashlib.sha256(str(warehouse).encode()).hexdigest()[:16]


def _settings(warehouse: Path, memory: str) -> dict[str, str]:
    metastore = warehouse.resolve() / "metastore"
    return {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Dderby.system.home={metastore.parent}",
                "-Dderby.stream.error.file=/dev/null",
                f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}",
                "-XX:+UseParallelGC",
                "-XX:-DontCompileHugeMethods",
                *_TRUSTED_ARROW,
            ]
        ),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # the plan of a wide table has more generated classes than Spark keeps (100), and would compile all again for each read
        "spark.sql.codegen.cache.maxEntries": "2000",
        # constraint inference is exponential in the CASEs of our steps, and finds nothing
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.warehouse.dir": str(warehouse.resolve() / "spark"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore};create=true",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        # reads name a state's files one by one; a discovery job for hundreds of files takes seconds
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
