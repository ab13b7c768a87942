"""Kafka Connect with Debezium's PostgreSQL connector: one standalone worker from jars, fetched once through Ivy."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cdc_views_spark.ivy import fetched
from cdc_views_spark.java import cache_folder, java_home

from services.account import free_port, launched, stop
from services.kafka import LOGGING, Kafka
from services.postgres import Postgres

PARTS = (
    ("org.apache.kafka", "connect-runtime", "4.3.1"),
    ("org.apache.kafka", "connect-json", "4.3.1"),
    ("io.debezium", "debezium-connector-postgres", "3.6.0.Final"),
    LOGGING,
)
_READY_WITHIN = 180.0


@dataclass
class Connect:
    """A running worker; `kill` and `start` as often as wanted: its folder keeps its offsets."""

    folder: Path
    port: int
    _server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until the connector runs."""
        jars = ":".join(f"{fetched(part, cache_folder() / f'{part[1]}-{part[2]}', finish=lambda _: None)}/*" for part in PARTS)
        java = str(java_home(cache_folder()) / "bin" / "java")
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        files = [str(self.folder / "worker.properties"), str(self.folder / "connector.properties")]
        with (self.folder / "log").open("ab") as said:
            self._server = launched(
                [java, *options, "-cp", jars, "org.apache.kafka.connect.cli.ConnectStandalone", *files],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=self.folder,
            )  # fmt: skip
        deadline = time.monotonic() + _READY_WITHIN
        while not self._runs():
            if time.monotonic() > deadline or self._server.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text()[-3000:])
            time.sleep(0.5)

    def _runs(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/connectors/debezium/status", timeout=5) as answer:
                tasks = json.load(answer)["tasks"]
        except (urllib.error.URLError, OSError):
            return False
        return bool(tasks) and all(task["state"] == "RUNNING" for task in tasks)

    def kill(self) -> None:
        """End it at once."""
        assert self._server is not None
        self._server.kill()
        self._server.wait(20)

    def stop(self) -> None:
        """Stop it."""
        if self._server is not None:
            stop(self._server)


@contextmanager
def running(broker: Kafka, server: Postgres, tables: str) -> Iterator[Connect]:
    """A worker whose connector writes the tables' changes to topics `lab.<schema>.<table>`, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-connect-"))
    worker = Connect(folder, free_port())
    converter = "org.apache.kafka.connect.json.JsonConverter"
    _write(folder / "worker.properties", {
        "bootstrap.servers": broker.address, "listeners": f"HTTP://127.0.0.1:{worker.port}", "plugin.discovery": "only_scan",
        "key.converter": converter, "value.converter": converter, "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true", "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "500",
    })  # fmt: skip
    _write(folder / "connector.properties", {
        "name": "debezium", "connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
        "plugin.name": "pgoutput", "slot.name": "debezium", "publication.name": "debezium",
        "publication.autocreate.mode": "filtered", "database.hostname": "127.0.0.1", "database.port": str(server.port),
        "database.user": "postgres", "database.password": "x", "database.dbname": server.environment["PGDATABASE"],
        "topic.prefix": "lab", "table.include.list": tables, "skipped.operations": "none", "provide.transaction.metadata": "true",
        "topic.creation.default.partitions": "2", "topic.creation.default.replication.factor": "1",
    })  # fmt: skip
    try:
        worker.start()
        yield worker
    finally:
        worker.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _write(file: Path, settings: dict[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
