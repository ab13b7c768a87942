"""A cluster end to end: agents' events land on a store, a Spark cluster keeps the state, and everybody reads the same rows.

Workers, the driver and the store fail in between: nothing is lost, and nothing counts twice.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from helpers.faulty_store import before
from services import spark_cluster
from services.stores import Store

from cdc_views import Project
from cdc_views.storage.delta_tables import opened
from cdc_views.table import Table

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.slow]
TABLE = "hid211.orders"
RUNS = int(os.environ.get("CDC_VIEWS_CLUSTER_RUNS", "1"))
_WITHIN = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[spark_cluster.Cluster]:
    with spark_cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@dataclass(frozen=True)
class Deployment:
    """A project in a folder, whose warehouse is on the store, and the cluster that keeps its states."""

    folder: Path
    cluster: spark_cluster.Cluster

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command line."""
        return subprocess.Popen(
            [sys.executable, "-m", "cdc_views", *command],
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.cluster.environment()},
        )

    def run(self, *command: str) -> str:
        """Run a command line to its end, which must be good."""
        said, _ = (process := self.start(*command)).communicate(timeout=_WITHIN)
        assert process.returncode == 0, said[-3000:]
        return said

    @property
    def table(self) -> Table:
        return Project.load(self.folder / "cdc_views.yml").table(TABLE)


def deployed(folder: Path, url: str, options: dict[str, str], cluster: spark_cluster.Cluster, case: Path) -> Deployment:
    table = {"name": TABLE, "schema": str(case / "schema.cql"), "raw": {"format": "cassandra-mutation"}}
    told = {"name": "t", "engine": "duckdb", "warehouse": url, "storage_options": options, "tables": [table]}
    told["spark"] = {"master": cluster.master}
    (folder / "cdc_views.yml").write_text(json.dumps(told))
    return Deployment(folder, cluster)


def answered(case: Path) -> tuple[int, list[str]]:
    """When Cassandra was asked, and its rows."""
    answer = json.loads((case / "expected_late.json").read_text("utf-8"))
    return int(answer["as_of"]), alike(answer["rows"])


def alike(rows: Iterable[str]) -> list[str]:
    """Rows of JSON, whatever the order of rows and columns."""
    parsed = (json.loads(row, parse_float=Decimal) for row in rows if row.startswith("{"))
    return sorted(repr(sorted(row.items())) for row in parsed)


def lines(file: Path, to: Path, first: int, last: int) -> str:
    to.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[first:last]))
    return str(to)


def landed_here(folder: Path, case: Path) -> Table:
    """The same table in a local folder, whose events landed without a fault."""
    folder.mkdir()
    table = {"name": TABLE, "schema": str(case / "schema.cql"), "raw": {"format": "cassandra-mutation"}}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "t", "engine": "duckdb", "tables": [table]}))
    local = Project.load(folder / "cdc_views.yml").table(TABLE)
    local.land(*(case / f"node{node}.jsonl" for node in (1, 2, 3)))
    return local


def counted(table: Table) -> int:
    return int(opened(table.raw.location).to_pyarrow_dataset().count_rows())


@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_nothing_is_lost_and_nothing_counts_twice(
    run: int, cassandra_cases: Path, tmp_path: Path, store: Store, cluster: spark_cluster.Cluster
) -> None:
    case, url = cassandra_cases / "wide3", f"{store.url()}/cluster-{run}"
    as_of, expected = answered(case)
    with before(store.port, seed=run, refused=0.01, lost=0.01, slow=0.02) as faulty:
        deployment = deployed(tmp_path, url, {**store.options(port=faulty.port), "max_retries": "8"}, cluster, case)
        deployment.run("land", "cassandra-mutation", lines(case / "node1.jsonl", tmp_path / "a.jsonl", 0, 800), "--table", TABLE)
        deployment.run("materialize", "--engine", "spark")
        # a worker is killed during a run, which ends well on the other; a new worker takes its place
        deployment.run("land", "cassandra-mutation", str(case / "node2.jsonl"), "--table", TABLE)
        process = deployment.start("materialize", "--engine", "spark")
        time.sleep(12 + run % 4)
        cluster.kill_worker(len(cluster.workers) - 1)
        said, _ = process.communicate(timeout=_WITHIN)
        cluster.add_worker()
        assert process.returncode == 0, said[-3000:]
        # the driver is killed; the next run takes in what it left
        deployment.run("land", "cassandra-mutation", str(case / "node3.jsonl"), "--table", TABLE)
        process = deployment.start("materialize", "--engine", "spark")
        time.sleep(14 + 2 * (run % 5))
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        deployment.run("land", "cassandra-mutation", str(case / "node1.jsonl"), "--table", TABLE)
        deployment.run("materialize", "--engine", "spark")
    deployment = deployed(tmp_path, url, store.options(), cluster, case)
    asked = ("query", TABLE, "--as-of", str(as_of), "--format", "jsonl")
    for engine in ("spark", "duckdb"):
        assert alike(deployment.run(*asked, "--engine", engine).splitlines()) == expected, engine
    assert alike(deployment.run(*asked, "--raw-only").splitlines()) == expected
    table = deployment.table
    assert counted(table) == counted(landed_here(tmp_path / "here", case)), "facts in raw"
    assert [check.name for check in table.validate(as_of=as_of).checks if check.broken] == []
