"""A local Spark session with Delta, its jars fetched once by Spark's own Ivy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from cdc_views.errors import EngineError
from cdc_views_spark.java import is_wrapped, java_home
from cdc_views_spark.truststore import trust_options

DELTA_JAR = ("io.delta", "delta-spark_4.2_2.13", "4.4.0")
"""Group, artifact and version that work with pyspark 4.2.0."""
_ATTEMPTS = 3
_PAUSE = 5
"""Seconds before the second attempt; twice as many before the third."""
_TELLING = re.compile(r"unresolved|not found|timed? ?out|refused|error", re.IGNORECASE)


def cache_folder() -> Path:
    """Return where jars and the Java wrapper are kept: `CDC_VIEWS_CACHE`, or the user's cache folder."""
    given = os.environ.get("CDC_VIEWS_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cdc-views"
    base.mkdir(parents=True, exist_ok=True)
    return base


def delta_jars() -> list[Path]:
    """Return the Delta jars, fetched on the first call; raises `EngineError` when they cannot be had."""
    folder = cache_folder() / f"jars-{DELTA_JAR[1]}-{DELTA_JAR[2]}"
    if not (folder / "complete").exists():
        # beside the place, then renamed: two processes may fetch at once, or one may be killed
        fetched = folder.with_name(f"{folder.name}.{os.getpid()}")
        _fetch(fetched)
        (fetched / "complete").touch()
        _put_in_place(fetched, folder)
    return sorted(folder.glob("*.jar"))


def _put_in_place(fetched: Path, folder: Path) -> None:
    if folder.exists() and not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
    try:
        fetched.rename(folder)
    except OSError:
        if not (folder / "complete").exists():
            raise
        shutil.rmtree(fetched)  # another process was first


def _fetch(folder: Path) -> None:
    """Fill the folder; a repository that does not answer is asked again."""
    said: str | None = ""
    for attempt in range(_ATTEMPTS):
        said = _fetched(folder)
        if said is None:
            return
        time.sleep(_PAUSE * (attempt + 1))
    tail = "\n".join([line.strip() for line in (said or "").splitlines() if _TELLING.search(line)][:5])
    raise EngineError(f"the Delta jars {':'.join(DELTA_JAR)} could not be fetched; is there a network?\n{tail}")


def _fetched(folder: Path) -> str | None:
    """Try once; returns None where it worked, else what Ivy said."""
    import pyspark

    # an Ivy cache of its own, new each time: a half-filled one makes Ivy fail
    jars = Path(str(pyspark.__file__)).parent / "jars"
    ivy = next(jars.glob("ivy-*.jar"))
    home = java_home(cache_folder())
    trust = trust_options(cache_folder()) if is_wrapped(home) else []
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(home / "bin" / "java"), *trust, "-jar", str(ivy), "-cache", str(folder.with_name(f"{folder.name}.ivy"))]
    command += ["-dependency", *DELTA_JAR, "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    shutil.rmtree(folder.with_name(f"{folder.name}.ivy"), ignore_errors=True)
    if done.returncode != 0 or not list(folder.glob("delta-spark*.jar")):
        return done.stdout + done.stderr
    for extra in folder.glob("*.jar"):
        # Spark brings its own Scala and logging; two of them clash
        if extra.name.startswith(("scala-library", "slf4j", "antlr4-runtime", "jackson")):
            extra.unlink()
    return None


def open_session(*, warehouse: Path, cores: int = 2, memory: str = "2g", options: dict[str, str] | None = None) -> SparkSession:
    """Return a session on this machine: UTC, ANSI, few partitions, a catalog kept inside `warehouse`.

    A session that is already open in this process is returned as it is. `CDC_VIEWS_SPARK_MASTER` names another master
    than this process's threads, one whose workers see the same files.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    warehouse.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(java_home(cache_folder()))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    master = os.environ.get("CDC_VIEWS_SPARK_MASTER") or f"local[{cores}]"
    builder = SparkSession.builder.master(master).appName("cdc-views")
    settings = {**_settings(warehouse, memory), **(options or {})}
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _settings(warehouse: Path, memory: str) -> dict[str, str]:
    metastore = warehouse.resolve() / "metastore"
    jars = os.pathsep.join(map(str, delta_jars()))
    return {
        "spark.driver.memory": memory,
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Dderby.system.home={metastore.parent}",
                "-Dderby.stream.error.file=/dev/null",
                f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}",
                "-XX:+UseParallelGC",
                "-XX:-DontCompileHugeMethods",
            ]
        ),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # inferring constraints through our steps grows exponentially with their CASEs, and finds nothing
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.warehouse.dir": str(warehouse.resolve() / "spark"),
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={metastore};create=true",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        # a state's files are named one by one; a job to look at hundreds of them takes seconds
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
