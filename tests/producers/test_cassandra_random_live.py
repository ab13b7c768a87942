"""Random CQL at RF 1 and 3, at ONE and ALL, through kills, DDL, CDC off and on, TRUNCATE: no difference, or a loud 503."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("cassandra")

from cassandra import ConsistencyLevel
from helpers.cassandra_steps import STEPS, Step, kill_node
from helpers.cassandra_trial import Trial
from helpers.cassandra_views import differences
from helpers.cassandra_workload import Workload
from helpers.command_line import CommandLine

pytestmark = pytest.mark.live
_SEED = int(os.environ.get("CDC_VIEWS_SEED", "1"))
_ONE, _ALL = (ConsistencyLevel.ONE,), (ConsistencyLevel.ALL,)
_CASES = [
    ("cassandra_node", 1, _ONE),
    ("cassandra_cluster", 1, _ONE),
    ("cassandra_cluster", 3, _ONE),
    ("cassandra_cluster", 3, _ALL),
]
_NAMES = ["one-node", "RF1-at-ONE", "RF3-at-ONE", "RF3-at-ALL"]
_ON = {name: pytest.mark.shares(name) for name in ("cassandra_node", "cassandra_cluster")}
_EACH = [pytest.param(number, marks=_ON[case[0]], id=_NAMES[number]) for number, case in enumerate(_CASES)]
_SOME = [
    pytest.param(*one.values, marks=[*one.marks, *([pytest.mark.slow] if one.id != "RF3-at-ONE" else [])], id=one.id)
    for one in _EACH
]


@pytest.fixture
def begin(request: pytest.FixtureRequest, run: CommandLine, tmp_path: Path) -> Iterator[Callable[[str, int], Trial]]:
    """Makes a trial on a cluster."""
    made: list[Trial] = []

    def make(cluster: str, replicas: int) -> Trial:
        made.append(Trial(request.getfixturevalue(cluster), run, tmp_path, replicas))
        return made[-1]

    yield make
    for trial in made:
        trial.end()


@pytest.mark.parametrize("case", _SOME)
def test_views_are_the_clusters_after_each_disturbance(begin: Callable[[str, int], Trial], case: int) -> None:
    """The steps are dealt to the cases; `make test-live` has one of these, `make test-live-long` all, and all steps for each."""
    steps = random.Random(_SEED).sample(STEPS, len(STEPS))[case :: len(_CASES)]
    _disturbed(begin, case, steps, seed=_SEED)


@pytest.mark.slow
@pytest.mark.parametrize("case", _EACH)
@pytest.mark.parametrize("seed", range(10, 13))
def test_views_are_the_clusters_after_every_disturbance(begin: Callable[[str, int], Trial], case: int, seed: int) -> None:
    steps = random.Random(seed * 10 + case).sample(STEPS, len(STEPS))
    _disturbed(begin, case, steps, seed=seed)


def _disturbed(begin: Callable[[str, int], Trial], case: int, steps: list[Step], *, seed: int) -> None:
    cluster, replicas, levels = _CASES[case]
    trial, chance = begin(cluster, replicas), random.Random(seed)
    trial.loads += [Workload(trial.cluster.session(), trial.keyspace, seed * 10 + n, levels=levels) for n in range(2)]
    trial.loads[0].run(50)
    trial.start()
    for done, step in enumerate(steps):
        with (trial.folder / "steps.log").open("a") as log:
            log.write(f"{time.strftime('%H:%M:%S')} {done} {step.__name__}\n")
        with trial.loaded():
            time.sleep(chance.uniform(0.5, 1.5))
            step(trial, chance)
            time.sleep(chance.uniform(0.2, 1))
        trial.check("--raw-only")
    assert trial.run("materialize", "--once").code == 0
    trial.check()
    assert sum(load.statements for load in trial.loads) > 100 * len(steps)
    trial.stop()


@_ON["cassandra_node"]
def test_what_a_killed_node_answers_is_what_has_landed(begin: Callable[[str, int], Trial]) -> None:
    """With one replica nobody makes up for what an agent misses, or for what a node forgets."""
    trial = begin("cassandra_node", 1)
    trial.start()
    for attempt in range(2):
        trial.loads[:] = [Workload(trial.cluster.session(), trial.keyspace, 20 + attempt)]
        with trial.loaded(pause=0.001):
            time.sleep(3)
            kill_node(trial, random.Random(attempt))
        trial.check()
        assert trial.loads[0].statements > 50
    assert trial.agents[0].stop() == 0
    trial.cql("UPDATE {ks}.simple SET b = 'unseen' WHERE k = 'u'")
    assert differences(trial.session, trial.run, trial.keyspace), "the comparison sees a difference"


@_ON["cassandra_node"]
def test_the_check_sees_an_agent_that_forgets_that_cdc_was_off(begin: Callable[[str, int], Trial]) -> None:
    """Somebody removes what it remembers while CDC is off: then it says nothing, and rows are missing."""
    trial = begin("cassandra_node", 1)
    trial.start()
    trial.cql("ALTER TABLE {ks}.simple WITH cdc = false")
    trial.is_loud("has cdc = false")
    for k in range(200):  # more than segments that other tables keep
        trial.cql(f"INSERT INTO {{ks}}.simple (k, b) VALUES ('unseen {k}', '{'x' * 20_000}')")
    assert trial.agents[0].stop() == 0
    (trial.folder / "agent0/work/logged.json").unlink()
    trial.cql("ALTER TABLE {ks}.simple WITH cdc = true")
    trial.start()
    trial.land()
    assert trial.troubles() == []
    assert differences(trial.session, trial.run, trial.keyspace, tables=("simple",)), "rows that no log has"
