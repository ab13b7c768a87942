"""Random CQL with DDL of every kind, CDC off and on, nodes and agents killed: in the end 0 differences, or a loud 503."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement
from cassandra_views import differences, landed_everywhere, mark, settled
from cassandra_workload import TABLES, Workload, create, project
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
    trial.session.execute(SimpleStatement("UPDATE {ks}.simple SET b = 'unseen' WHERE k = 'u'".replace("{ks}", trial.keyspace)))
    assert differences(trial.session, trial.run, trial.keyspace), "the comparison sees a difference"


@pytest.mark.parametrize("trial", ["cassandra_node", pytest.param("cassandra_cluster", marks=pytest.mark.slow)], indirect=True)
def test_ddl_of_every_kind_cdc_off_and_kills_end_without_a_difference(trial: Trial) -> None:
    chance = random.Random(7)
    load = Workload(trial.cluster.session(consistency=ConsistencyLevel.ONE), trial.keyspace, 7)
    load.run(100)
    trial.start()
    for disturb in (_columns, _cdc_off, _kill, _field, _recreate):
        with load.running():
            time.sleep(1)
        disturb(trial, load, chance)
        with load.running():
            time.sleep(1)
        trial.is_well()
        trial.land()
        settled()
        assert differences(trial.session, trial.run, trial.keyspace) == [], disturb.__name__
    for agent in trial.agents:
        assert agent.metric("quarantined_total") == 0
        assert agent.stop() == 0


def _columns(trial: Trial, load: Workload, chance: random.Random) -> None:
    for change in ("ADD extra int", "DROP extra", "ADD extra int"):
        trial.cql(f"ALTER TABLE {{ks}}.wide {change}")
        time.sleep(chance.uniform(0, 1))
        load.run(20)


def _cdc_off(trial: Trial, load: Workload, chance: random.Random) -> None:
    """Rows come while CDC is off; of what goes meanwhile, the warning says that no snapshot tells."""
    trial.cql("ALTER TABLE {ks}.simple WITH cdc = false")
    for k in range(300):
        trial.session.execute(f"INSERT INTO {trial.keyspace}.simple (k, b) VALUES (%s, %s)", (f"gap{k}", "x" * 5000))
    trial.cql("ALTER TABLE {ks}.simple WITH cdc = true")
    for agent in trial.agents:
        agent.wait_until_said("simple was altered, and CDC", within=60)


def _kill(trial: Trial, load: Workload, chance: random.Random) -> None:
    index = chance.randrange(len(trial.agents))
    with load.running():
        trial.agents[index].kill()
        trial.cluster.kill(index)
        time.sleep(1)
    trial.cluster.start(index)
    trial.agents[index].start("--snapshot-consistency", "ALL").wait_until_said("following", within=_WITHIN)


def _field(trial: Trial, load: Workload, chance: random.Random) -> None:
    """The table of the type is set aside until the file says what the node says; the others go on."""
    trial.cql("ALTER TYPE {ks}.spot RENAME label TO name")
    load.field = "name"
    eventually(lambda: len(trial.troubles()) == len(trial.agents), within=60, what=trial.troubles)
    assert all("'label' text in the schema file and 'name' text in the node" in text for text in trial.troubles())
    trial.cql("INSERT INTO {ks}.wide (pk, ck1, ck2, fu) VALUES (77, 1, '', {x: 1, name: 'n'})")
    with (trial.folder / "schema.cql").open("a") as file:
        file.write(f"ALTER TYPE {trial.keyspace}.spot RENAME label TO name;\n")


def _recreate(trial: Trial, load: Workload, chance: random.Random) -> None:
    """A table is dropped and made again: what comes to it waits until it has a raw table of its own."""
    text = "CREATE TABLE {ks}.pairs (a int, b text, c int, PRIMARY KEY ((a, b), c)) WITH cdc = true"
    trial.cql("DROP TABLE {ks}.pairs")
    trial.cql(text)
    trial.cql("INSERT INTO {ks}.pairs (a, b, c) VALUES (1, 'latter', 1)")
    eventually(lambda: "pairs" in str(trial.troubles()), within=60, what=trial.troubles)
    told = json.loads((trial.folder / "cdc_views.yml").read_text())
    told["tables"][TABLES.index("pairs")]["raw"]["table"] = "raw/pairs2"
    beside = trial.folder / "new.yml"
    beside.write_text(json.dumps(told))
    beside.replace(trial.folder / "cdc_views.yml")
