"""Three Cassandra nodes, an agent beside each: random CQL, kills of nodes and agents, ALTER under load, snapshots.

Hints and read repair bring what a node missed: each is shown to have happened. At each checkpoint what views show, over raw and
over a state, is what `SELECT JSON` at ALL answers.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from helpers.cassandra_views import differences, landed_everywhere, mark, read_at_all, settled, witness, witnessed_by
from helpers.cassandra_workload import TABLES, Workload, create, project
from helpers.command_line import CommandLine
from helpers.producing import Producer, eventually

if TYPE_CHECKING:
    from cassandra.cluster import Session
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live
_LANDS_WITHIN = 240.0


@dataclass
class Trial:
    """A keyspace of the cluster, its project in the working directory, and an agent beside each node."""

    cluster: CassandraCluster
    session: Session
    keyspace: str
    run: CommandLine
    agents: list[Producer]
    marks: int = 0
    hinted: list[tuple[int, str]] = field(default_factory=list)
    missed: list[tuple[int, str]] = field(default_factory=list)

    def start(self, *more: str) -> None:
        """Start every agent, and wait until each follows its node's log."""
        for agent in self.agents:
            agent.start(*more)
        for agent in self.agents:
            agent.wait_until_said("following", within=_LANDS_WITHIN)

    @contextmanager
    def load(self, *workloads: Workload) -> Iterator[None]:
        """Run the workloads meanwhile."""
        with ExitStack() as running:
            for workload in workloads:
                running.enter_context(workload.running())
            yield

    def check(self) -> None:
        """Wait until everything has landed; compare raw, then make the state and compare that."""
        self.marks += 1
        mark(self.session, self.keyspace, self.marks)
        nodes = {node.address for node in self.cluster.nodes}
        eventually(
            lambda: landed_everywhere(self.keyspace, self.marks, nodes),
            within=_LANDS_WITHIN,
            every=0.5,
            what=f"mark {self.marks} from {nodes}; the agents say {[agent.said[-3:] for agent in self.agents]}",
        )
        self._check_hints()
        self._check_read_repair()
        settled()
        assert differences(self.session, self.run, self.keyspace, "--raw-only") == []
        assert self.run("materialize", "--once").code == 0
        assert differences(self.session, self.run, self.keyspace) == []

    def _check_hints(self) -> None:
        """What a node missed while it was away is in its log, though nobody has read it: others kept hints for it."""
        for number, node in self.hinted:
            eventually(
                lambda number=number, node=node: node in witnessed_by(self.keyspace, number),
                within=60,
                every=0.5,
                what=f"witness {number} from {node} by a hint",
            )
        self.hinted.clear()

    def _check_read_repair(self) -> None:
        """What a node missed while nobody kept hints is not in its log, until a read at ALL has repaired it."""
        for number, node in self.missed:
            assert node not in witnessed_by(self.keyspace, number)
        if self.missed:
            read_at_all(self.session, self.keyspace)
        for number, node in self.missed:
            eventually(
                lambda number=number, node=node: node in witnessed_by(self.keyspace, number),
                within=30,
                every=0.5,
                what=f"witness {number} from {node} by read repair",
            )
        self.missed.clear()

    def stop(self) -> None:
        """End every agent: none has put anything into quarantine."""
        for agent in self.agents:
            assert agent.metric("quarantined_total") == 0
            assert agent.stop() == 0


@pytest.fixture
def trial(cassandra_cluster: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Trial]:
    cluster, keyspace = cassandra_cluster, f"live{time.time_ns() % 10**9}"
    project(tmp_path, keyspace)
    agents = []
    for node in cluster.nodes:
        folder = tmp_path / f"agent{node.index}"
        folder.mkdir()
        where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
        agents.append(Producer(folder, {}, ["cassandra", "--project", str(tmp_path / "cdc_views.yml"), *where]))
    session = cluster.session()
    yield Trial(cluster, session, keyspace, run, agents)
    for agent in agents:
        if agent.is_alive:
            agent.kill()
    for node in cluster.nodes:
        if not node.is_running:
            cluster.start(node.index)
    (tmp_path / "nodes.log").write_text("\n".join(node.log.read_text(errors="replace") for node in cluster.nodes))
    session.execute(f"DROP KEYSPACE {keyspace}")


def test_nodes_and_agents_are_killed_and_columns_altered_under_load(trial: Trial) -> None:
    _kills_and_alters(trial, seed=1, rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_nodes_and_agents_are_killed_many_times(trial: Trial, seed: int) -> None:
    _kills_and_alters(trial, seed=seed, rounds=5)


def _kills_and_alters(trial: Trial, *, seed: int, rounds: int) -> None:
    create(trial.session, trial.keyspace, replicas=3)
    chance = random.Random(seed)
    loads = [Workload(trial.cluster.session(), trial.keyspace, seed * 10 + n) for n in range(2)]
    loads[0].run(50)
    trial.start()
    for _ in range(rounds):
        for disturb in (_kill_node, _kill_agent, _alter, _kill_both):
            with trial.load(*loads):
                time.sleep(chance.uniform(1, 2))
                disturb(trial, loads, chance)
                time.sleep(chance.uniform(0.5, 1.5))
            trial.check()
    assert sum(load.statements for load in loads) > 500
    trial.stop()


def _kill_node(trial: Trial, _: list[Workload], chance: random.Random) -> None:
    """Others keep hints for it meanwhile."""
    trial.hinted.append(_away(trial, chance))


def _kill_node_without_hints(trial: Trial, _: list[Workload], chance: random.Random) -> None:
    """What it misses it gets by read repair alone."""
    for node in trial.cluster.nodes:
        node.tool("disablehandoff")
    trial.missed.append(_away(trial, chance))
    for node in trial.cluster.nodes:
        node.tool("enablehandoff")


def _away(trial: Trial, chance: random.Random) -> tuple[int, str]:
    """Kill a node (-9) and start it again; returns the number of the witness it missed, and its address."""
    index, number = chance.randrange(3), time.time_ns() // 1_000_000 % 10**9
    address = trial.cluster.nodes[index].address
    trial.cluster.kill(index)
    eventually(lambda: _is_down(trial, index), within=60, every=0.5, what=f"the other nodes to see that {address} is down")
    witness(trial.session, trial.keyspace, number)
    trial.cluster.start(index)
    return number, address


def _is_down(trial: Trial, index: int) -> bool:
    """Whether both others know: until then they keep what is written for it, and send it when it is back."""
    nodes = list(trial.cluster.nodes)
    gone = re.compile(rf"^DN\s+{re.escape(nodes.pop(index).address)}\s", re.MULTILINE)
    return all(gone.search(node.tool("status")) for node in nodes)


def _kill_agent(trial: Trial, _: list[Workload], chance: random.Random) -> None:
    for _ in range(2):
        agent = chance.choice(trial.agents)
        agent.kill()
        agent.start()
        time.sleep(chance.uniform(0, 2))


def _alter(trial: Trial, loads: list[Workload], chance: random.Random) -> None:
    """A column comes, goes and comes again, with other values; another comes to stay."""
    for change in ("ADD extra int", "DROP extra", "ADD extra int"):
        for load in loads:
            load.forget("extra")
        trial.session.execute(f"ALTER TABLE {trial.keyspace}.wide {change}")
        if change.startswith("ADD"):
            for load in loads:
                load.added["extra"] = lambda: str(chance.randrange(100))
        time.sleep(chance.uniform(0.5, 1))
    for load in loads:
        load.forget("extra")
    trial.session.execute(f"ALTER TABLE {trial.keyspace}.wide DROP extra")


def _kill_both(trial: Trial, loads: list[Workload], chance: random.Random) -> None:
    _kill_agent(trial, loads, chance)
    _kill_node_without_hints(trial, loads, chance)


def test_a_snapshot_by_three_agents_and_the_log_after_it_are_the_cluster(trial: Trial) -> None:
    """Rows from before CDC, of the columns that CQL tells everything of, then changes of the same rows."""
    create(trial.session, trial.keyspace, replicas=3, has_cdc=False)
    load = Workload(trial.cluster.session(), trial.keyspace, 7, inserts_only=True)
    load.run(600)
    for table in TABLES:
        trial.session.execute(f"ALTER TABLE {trial.keyspace}.{table} WITH cdc = true")
    trial.start("--snapshot-consistency", "QUORUM")
    trial.check()
    with trial.load(load):
        time.sleep(5)
    trial.check()
    trial.stop()
    assert all(any("snapshot: read all" in line["message"] for line in agent.said) for agent in trial.agents)
