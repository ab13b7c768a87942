"""A Spark cluster of the tests' own: a standalone master and workers, each a process, on the loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from cdc_views_spark.java import cache_folder, java_home

from services.account import free_port, launched, stop

_READY_WITHIN = 90.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


@dataclass
class Cluster:
    """A running cluster; `workers` are processes, whose executors are processes below them."""

    folder: Path
    port: int
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What `cdc-views` needs to run on it."""
        return _environment()

    def add_worker(self) -> None:
        """Start one more worker, of one core."""
        number, log = len(self.workers), self.folder / f"worker-{len(self.workers)}.log"
        place = self.folder / f"work-{number}"
        options = ["--cores", "1", "--memory", "1g", "--work-dir", str(place), "--webui-port", str(free_port())]
        self.workers.append(_java(_WORKER, [*options, "--host", "127.0.0.1", self.master], log))
        _wait_for(log, "Successfully registered with master")

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, as a machine that is gone."""
        worker = self.workers[number]
        for pid in (*_children(worker.pid), worker.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        worker.wait(20)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def _environment() -> dict[str, str]:
    home = java_home(cache_folder())
    return {"JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def _java(name: str, options: list[str], log: Path) -> subprocess.Popen[bytes]:
    home = Path(str(pyspark.__file__)).parent
    command = [str(home / "bin" / "spark-class"), name, *options]
    environment = {**os.environ, **_environment(), "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "512m"}
    with log.open("ab") as said:
        return launched(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, cwd=log.parent)


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + _READY_WITHIN
    while text not in log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            raise RuntimeError(log.read_text(errors="replace")[-3000:])
        time.sleep(0.1)


@contextmanager
def running(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Run a cluster; its logs go to `folder`."""
    cluster = Cluster(folder, free_port())
    options = ["--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", str(free_port())]
    master = _java(_MASTER, options, folder / "master.log")
    try:
        _wait_for(folder / "master.log", "New state: ALIVE")
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for number, worker in enumerate(cluster.workers):
            if worker.poll() is None:
                cluster.kill_worker(number)
        stop(master)
