"""A Hive metastore of the tests' own, from the jars that PySpark ships: one JVM, its tables in Derby in a folder."""

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
from xml.sax.saxutils import escape

from cdc_views_spark.java import cache_folder, java_home

from services.account import free_port, started, stop

_READY_WITHIN = 120.0


@dataclass(frozen=True)
class HiveMetastore:
    """A running metastore; `warehouse` is where its own tables are."""

    port: int
    warehouse: Path

    def settings(self) -> dict[str, str]:
        """What a Spark session is told to use it as its `spark_catalog`."""
        place = {"spark.sql.warehouse.dir": str(self.warehouse), "spark.sql.catalogImplementation": "hive"}
        return {"spark.hadoop.hive.metastore.uris": f"thrift://127.0.0.1:{self.port}", **place}


@contextmanager
def running() -> Iterator[HiveMetastore]:
    """A metastore without tables, gone at the end."""
    folder, port = Path(tempfile.mkdtemp(prefix="cdc-views-hive-")), free_port()
    (folder / "hive-site.xml").write_text(_site(folder))
    of_java = f"-XX:TieredStopAtLevel=1 -Dderby.stream.error.file={folder / 'derby.log'}"
    told = {"SPARK_CONF_DIR": str(folder), "JAVA_HOME": str(java_home(cache_folder())), "JDK_JAVA_OPTIONS": of_java}
    try:
        server = started(
            [sys.executable, str(Path(__file__).with_name("hive_server.py")), str(port)],
            lambda: socket.create_connection(("127.0.0.1", port), timeout=1).close(),
            log=folder / "log",
            within=_READY_WITHIN,
            failure=OSError,
            env={**os.environ, **told},
        )
        try:
            yield HiveMetastore(port, folder / "warehouse")
        finally:
            stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _site(folder: Path) -> str:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'derby'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
        # of Log4j's asynchronous logger a jar is missing
        "hive.async.log.enabled": "false",
    }
    told = (f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items())
    return f"<configuration>{''.join(told)}</configuration>\n"
