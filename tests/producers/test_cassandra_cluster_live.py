"""Three Cassandra nodes, an agent beside each: random CQL, kills of nodes and agents, ALTER under load, snapshots.

Hints and read repair bring what a node missed: each is shown to have happened. At each checkpoint what views show, over raw and
over a state, is what `SELECT JSON` at ALL answers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from helpers.cassandra_trial import Trial
from helpers.cassandra_views import witness
from helpers.cassandra_workload import TABLES, Workload
from helpers.command_line import CommandLine

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live


@pytest.fixture
def begin(cassandra_cluster: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Callable[..., Trial]]:
    """Makes a trial on the cluster."""
    made: list[Trial] = []

    def make(*options: str, has_cdc: bool = True) -> Trial:
        made.append(Trial(cassandra_cluster, run, tmp_path, 3, options=options, has_cdc=has_cdc))
        return made[-1]

    yield make
    for trial in made:
        trial.end()


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "rounds"), [(1, 1), (2, 5), (3, 5)])
def test_nodes_and_agents_are_killed_and_columns_altered_under_load(begin: Callable[..., Trial], seed: int, rounds: int) -> None:
    _kills_and_alters(begin(), seed=seed, rounds=rounds)


def _kills_and_alters(trial: Trial, *, seed: int, rounds: int) -> None:
    chance, loads = random.Random(seed), trial.loads
    loads += [Workload(trial.cluster.session(), trial.keyspace, seed * 10 + n) for n in range(2)]
    loads[0].run(50)
    trial.start()
    for _ in range(rounds):
        for disturb in (_kill_node, _kill_agent, _alter, _kill_both):
            with trial.loaded():
                time.sleep(chance.uniform(1, 2))
                disturb(trial, chance)
                time.sleep(chance.uniform(0.5, 1.5))
            trial.check_with_state()
    assert sum(load.statements for load in loads) > 500
    trial.stop()


def _kill_node(trial: Trial, chance: random.Random) -> None:
    """Others keep hints for it meanwhile."""
    trial.hinted.append(_away(trial, chance))


def _kill_node_without_hints(trial: Trial, chance: random.Random) -> None:
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
    trial.cluster.wait_until_seen_down(index)
    witness(trial.session, trial.keyspace, number)
    trial.cluster.start(index)
    return number, address


def _kill_agent(trial: Trial, chance: random.Random) -> None:
    for _ in range(2):
        agent = chance.choice(trial.agents)
        agent.kill()
        agent.start()
        time.sleep(chance.uniform(0, 2))


def _alter(trial: Trial, chance: random.Random) -> None:
    """A column comes, goes and comes again, with other values; another comes to stay."""
    for change in ("ADD extra int", "DROP extra", "ADD extra int"):
        for load in trial.loads:
            load.forget("extra")
        trial.session.execute(f"ALTER TABLE {trial.keyspace}.wide {change}")
        if change.startswith("ADD"):
            for load in trial.loads:
                load.added["extra"] = lambda: str(chance.randrange(100))
        time.sleep(chance.uniform(0.5, 1))
    for load in trial.loads:
        load.forget("extra")
    trial.session.execute(f"ALTER TABLE {trial.keyspace}.wide DROP extra")


def _kill_both(trial: Trial, chance: random.Random) -> None:
    _kill_agent(trial, chance)
    _kill_node_without_hints(trial, chance)


def test_a_snapshot_by_three_agents_and_the_log_after_it_are_the_cluster(begin: Callable[..., Trial]) -> None:
    """Rows from before CDC, of the columns that CQL tells everything of, then changes of the same rows."""
    trial = begin("--snapshot-consistency", "QUORUM", has_cdc=False)
    load = Workload(trial.cluster.session(), trial.keyspace, 7, inserts_only=True)
    trial.loads.append(load)
    load.run(600)
    for table in TABLES:
        trial.session.execute(f"ALTER TABLE {trial.keyspace}.{table} WITH cdc = true")
    trial.start()
    trial.check_with_state()
    with trial.loaded():
        time.sleep(5)
    trial.check_with_state()
    trial.stop()
    assert all(any("snapshot: read all" in line["message"] for line in agent.said) for agent in trial.agents)
