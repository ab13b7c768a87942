"""Random CQL on one replica, its node killed: what it answers after is what has landed, for nobody else had it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from cassandra_views import differences, landed_everywhere, mark, settled
from cassandra_workload import Workload, create, project
from command_line import CommandLine
from producing import Producer, eventually

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live
_WITHIN = 240.0


class Trial:
    """A keyspace of a cluster, its project in the working directory, and an agent beside each node."""

    def __init__(self, cluster: CassandraCluster, run: CommandLine, folder: Path) -> None:
        self.cluster, self.run, self.folder = cluster, run, folder
        self.keyspace, self.marks = f"rnd{time.time_ns() % 10**9}", 0
        self.session = cluster.session()
        create(self.session, self.keyspace, replicas=len(cluster.nodes))
        project(folder, self.keyspace)
        self.agents = []
        for node in cluster.nodes:
            (folder / f"agent{node.index}").mkdir()
            where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
            work = ["--work-folder", str(folder / f"agent{node.index}" / "work")]
            given = ["cassandra", "--project", str(folder / "cdc_views.yml"), *where, *work]
            self.agents.append(Producer(folder / f"agent{node.index}", {}, given))

    def start(self) -> None:
        for agent in self.agents:
            agent.start("--snapshot-consistency", "ALL")
        for agent in self.agents:
            agent.wait_until_said("following", within=_WITHIN)

    def land(self) -> None:
        """Wait until every agent has landed what its node was told by now."""
        self.marks += 1
        mark(self.session, self.keyspace, self.marks)
        nodes = {node.address for node in self.cluster.nodes}
        eventually(
            lambda: landed_everywhere(self.keyspace, self.marks, nodes), within=_WITHIN, every=1.0,
            what=f"mark {self.marks}; the agents say {[agent.said[-3:] for agent in self.agents]}",
        )  # fmt: skip

    def troubles(self) -> list[str]:
        """What /healthz of every agent says is wrong."""
        return [text for agent in self.agents for text in json.loads(agent.get("/healthz")[1])["troubles"].values()]

    def is_well(self) -> None:
        eventually(lambda: not self.troubles(), within=_WITHIN, every=0.5, what=self.troubles())

    def cql(self, text: str) -> None:
        self.session.execute(text.replace("{ks}", self.keyspace))


@pytest.fixture
def trial(request: pytest.FixtureRequest, run: CommandLine, tmp_path: Path) -> Iterator[Trial]:
    cluster: CassandraCluster = request.getfixturevalue(getattr(request, "param", "cassandra_node"))
    made = Trial(cluster, run, tmp_path)
    yield made
    for agent in made.agents:
        if agent.running is not None and agent.running.poll() is None:
            agent.kill()
    for node in cluster.nodes:
        if not node.is_running:
            cluster.start(node.index)
    made.cql("DROP KEYSPACE IF EXISTS {ks}")


def test_what_a_killed_node_answers_is_what_has_landed(trial: Trial) -> None:
    """With one replica nobody makes up for what an agent misses, or for what a node forgets."""
    trial.start()
    for attempt in range(2):
        load = Workload(trial.cluster.session(), trial.keyspace, 20 + attempt)
        with load.running(pause=0.001):
            time.sleep(3)
            trial.cluster.kill(0)
            time.sleep(0.5)
        trial.cluster.start(0)
        trial.land()
        settled()
        assert load.statements > 50
        assert differences(trial.session, trial.run, trial.keyspace) == []
    trial.is_well()
    assert trial.agents[0].stop() == 0
    trial.cql("UPDATE {ks}.simple SET b = 'unseen' WHERE k = 'u'")
    assert differences(trial.session, trial.run, trial.keyspace), "the comparison sees a difference"
