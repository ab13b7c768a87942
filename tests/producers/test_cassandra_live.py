"""Cassandra's agent for longer: kills of agent, reader and node, ALTER under load, a node that is away."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cassandra.cluster import Session
from helpers.cassandra_processes import reader_of
from helpers.cassandra_tables import ORDERS, TABLES, TYPED, Workload, differences, mark, wait_until_landed
from helpers.cassandra_views import lists_waiting
from helpers.command_line import CommandLine
from helpers.producing import Producer, eventually
from services.cassandra import CassandraCluster

from cdc_views.api import Project

pytestmark = pytest.mark.live


def check(session: Session, run: CommandLine, number: int) -> None:
    """Views over raw, and over a state and what landed since, equal the source; `number` differs each time."""
    mark(session, number)
    wait_until_landed(run, number, within=120)
    # a restart at an ALTER takes a snapshot again, and then what has an older write time
    eventually(lambda: not lists_waiting(Path.cwd()), within=60, every=0.5, what="lists to be read again")
    assert differences(session, run, "--raw-only") == []
    assert run("materialize", "--once").code == 0
    assert differences(session, run) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_kills_of_agent_reader_and_node(agent: Producer, cassandra: CassandraCluster, run: CommandLine, seed: int) -> None:
    session, chance = cassandra.session(), random.Random(seed)
    workload = Workload(session, seed)
    agent.start().wait_until_said("following", within=120)

    def kill_agent() -> None:
        agent.kill()
        agent.start().wait_until_said("following", within=120)

    def kill_reader() -> None:
        before = sum("following" in line["message"] for line in agent.said)
        os.kill(reader_of(agent), signal.SIGKILL)
        eventually(lambda: sum("following" in line["message"] for line in agent.said) > before, within=120, what="reader again")

    def kill_node() -> None:
        cassandra.kill(0)
        time.sleep(chance.random())
        cassandra.start(0)

    kinds: list[Callable[[], None]] = [kill_agent, kill_reader, kill_node]
    for number, kill in enumerate(chance.sample(kinds * 2, 6)):
        with workload.running():
            time.sleep(chance.uniform(0.5, 3))
            kill()
        check(session, run, number)
    assert agent.metric("quarantined_total") == 0
    assert agent.stop() == 0


@pytest.mark.slow
def test_columns_added_dropped_and_added_again_under_load(
    agent: Producer, cassandra: CassandraCluster, run: CommandLine, tmp_path: Path
) -> None:
    session = cassandra.session()
    workload = Workload(session, 3)
    agent.start().wait_until_said("following", within=120)
    for number, (statement, columns) in enumerate(
        [
            (f"ALTER TABLE {ORDERS} ADD extra int", ["extra"]),
            (f"ALTER TABLE {ORDERS} DROP extra", []),
            (f"ALTER TABLE {ORDERS} ADD extra int", ["extra"]),
            ("ALTER TYPE shop.addr ADD country text", ["extra"]),
            (f"ALTER TABLE {ORDERS} DROP w", ["extra"]),
        ]
    ):
        with workload.running():
            time.sleep(1)
            workload.columns = []
            session.execute(statement)
            workload.columns = columns
            time.sleep(1)
            if number % 2:
                agent.kill()
                agent.start().wait_until_said("following", within=120)
        check(session, run, number)
    assert agent.metric("quarantined_total") == 0
    assert "USING TIMESTAMP" in (tmp_path / "shop.cql").read_text()


def test_a_raw_table_that_was_lost_is_read_from_the_node_again(
    agent: Producer, cassandra: CassandraCluster, run: CommandLine, tmp_path: Path
) -> None:
    """The tables have had CDC since they were created, so no snapshot was taken; by now segments of theirs are gone."""
    session = cassandra.session()
    session.execute(f"INSERT INTO {ORDERS} (tenant, day, seq, kind, v) VALUES ('old', '2026-01-01', 1, 'x', 7)")
    agent.start().wait_until_said("following", within=120)
    assert sum("no snapshot: it has had CDC" in line["message"] for line in agent.said) == len(TABLES)
    for number in range(8):  # more than a segment
        session.execute(f"UPDATE {ORDERS} SET w = %s WHERE tenant = 'x' AND day = '2026-01-01' AND seq = 1 AND kind = 'x'",
                        (str(number) * 300_000,))  # fmt: skip
    eventually(lambda: list(tmp_path.glob("warehouse/cassandra/*/has-let-go")), within=60, what="a segment that was let go")
    mark(session, 1)
    wait_until_landed(run, 1)
    assert agent.stop() == 0
    shutil.rmtree(Path(Project.load().table(ORDERS).location))
    shutil.rmtree(Path(Project.load().table(TYPED).location))
    for name in (ORDERS, TYPED):
        assert run("rebuild", name, "--accept").code == 0, "a raw table that is gone begins anew with leave only"
    agent.start().wait_until_said("snapshot: read all", within=120)
    mark(session, 2)
    wait_until_landed(run, 2)
    assert differences(session, run) == []
    assert agent.stop() == 0


def test_it_starts_while_the_node_is_down_and_lands_what_it_left(
    agent: Producer, cassandra: CassandraCluster, run: CommandLine
) -> None:
    session = cassandra.session()
    workload = Workload(session, 4)
    agent.start().wait_until_said("following", within=120)
    workload.run(50)
    mark(session, 0)
    wait_until_landed(run, 0)  # also past segments of tables that are gone: whether they are, only the node can tell
    agent.kill()
    workload.run(100)
    mark(session, 1)
    time.sleep(0.5)  # the node's commit log is synced several times a second
    cassandra.kill(0)
    try:
        agent.start().wait_until_said("as it was last seen", within=120)
        wait_until_landed(run, 1, within=120)
        assert agent.get("/healthz")[0] == 503
    finally:
        cassandra.start(0)
    check(session, run, 2)
    eventually(lambda: agent.get("/healthz")[0] == 200, what="well again")
