"""A Spark Connect server with Delta, as `start-connect-server` starts it: one JVM on loopback, stopped by its pid."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark
from cdc_views_spark.java import cache_folder, java_home
from cdc_views_spark.session import delta_jars

from services.account import free_port, started, stop

_READY_WITHIN = 120.0
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # a job over a log of few commits has fifty tasks otherwise, for each table in a plan
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass(frozen=True)
class SparkConnect:
    """A running server."""

    port: int

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"sc://127.0.0.1:{self.port}"


@contextmanager
def running(**settings: str) -> Iterator[SparkConnect]:
    """A server, gone at the end; `settings` with `_` for `.`, beside those of docs/how-to/tools/spark.md."""
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="cdc-views-connect-"))
    given = {name.replace("_", "."): value for name, value in settings.items()}
    jars = os.pathsep.join(map(str, delta_jars()))
    of_server = {"spark.connect.grpc.binding.port": str(port), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    settings_of_all = {**_SETTINGS, **of_server, **given}
    options = [part for name, value in settings_of_all.items() for part in ("--conf", f"{name}={value}")]
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    # Spark's own scripts take another Spark of the environment for theirs
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    java = {"JAVA_HOME": str(java_home(cache_folder())), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        server = started(
            [*command, "--driver-class-path", jars, *options, "--class", _SERVER, "spark-internal"],
            lambda: socket.create_connection(("127.0.0.1", port), timeout=1).close(),
            log=folder / "log",
            within=_READY_WITHIN,
            failure=OSError,
            env={**inherited, **java},
        )
        try:
            yield SparkConnect(port)
        finally:
            stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
