"""The ring changes under load: a node is lost with its disk and replaced, and a token moves; the views are the cluster's."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from cassandra import ConsistencyLevel
from helpers.cassandra_trial import Trial
from helpers.cassandra_workload import Workload
from helpers.command_line import CommandLine

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live


@pytest.fixture
def begin(cassandra_cluster: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Callable[[int], Trial]]:
    """Makes a trial on the cluster, with so many replicas."""
    made: list[Trial] = []

    def make(replicas: int) -> Trial:
        made.append(Trial(cassandra_cluster, run, tmp_path, replicas))
        return made[-1]

    yield make
    for trial in made:
        trial.end()


def test_a_node_that_was_lost_with_its_disk_is_replaced(begin: Callable[[int], Trial]) -> None:
    """What its agent had not read, the agents of other replicas have; the new node's agent begins with an empty work folder.

    At the same address Cassandra gives the new node the host id of the lost one, so it lands under the same stream.
    """
    trial = begin(3)
    trial.loads.append(Workload(trial.session, trial.keyspace, 41, levels=(ConsistencyLevel.QUORUM,)))
    trial.loads[0].run(100)
    trial.start()
    with trial.loaded():
        time.sleep(1)
    trial.agents[2].kill()  # what it has not read is lost with the disk
    host, former = _host_id(trial, 2), set(trial.cluster.nodes[2].cdc_raw.iterdir())
    with trial.loaded():
        trial.cluster.kill(2)
        shutil.rmtree(trial.folder / "agent2" / "work")
        trial.cluster.replace(2)
        trial.start()
        time.sleep(1)
    assert _host_id(trial, 2) == host
    assert not former & set(trial.cluster.nodes[2].cdc_raw.iterdir()), "its log is a new one"
    trial.check()
    assert trial.loads[0].statements > 200
    trial.stop()


def test_a_token_moves(begin: Callable[[int], Trial]) -> None:
    """With one replica: rows are streamed to their new owner, whose log never had them."""
    trial = begin(1)
    trial.loads.append(Workload(trial.session, trial.keyspace, 42, levels=(ConsistencyLevel.ONE,)))
    trial.loads[0].run(100)
    trial.start()
    before = _token(trial, 1)
    with trial.loaded():
        time.sleep(1)
        # half of what the node before it had, or of what it had itself
        trial.cluster.nodes[1].tool("move", str(before + 2**61))
        time.sleep(1)
    assert _token(trial, 1) == before + 2**61
    trial.check()
    with trial.loaded():
        trial.cluster.nodes[1].tool("move", str(before))
    trial.check()
    assert trial.loads[0].statements > 200
    trial.stop()


def _local(trial: Trial, index: int, column: str) -> object:
    session = trial.cluster.session(only=index)
    try:
        return session.execute(f"SELECT {column} FROM system.local").one()[0]
    finally:
        session.cluster.shutdown()


def _host_id(trial: Trial, index: int) -> object:
    return _local(trial, index, "host_id")


def _token(trial: Trial, index: int) -> int:
    (token,) = _local(trial, index, "tokens")
    return int(token)
