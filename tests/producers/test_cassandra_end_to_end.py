"""Cassandra, a real node, through its agent, which is killed, to views that equal the node's own SELECT JSON."""

from __future__ import annotations

import random
import time

import pytest
from helpers.cassandra_tables import ORDERS, TABLES, Workload, differences, mark, wait_until_landed
from helpers.command_line import CommandLine
from helpers.comparing import lose
from helpers.producing import Producer
from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live


def test_the_views_equal_the_source_after_kills(agent: Producer, cassandra: CassandraCluster, run: CommandLine) -> None:
    session, chance = cassandra.session(), random.Random(1)
    workload = Workload(session, seed=1)
    workload.run(200)
    agent.start()
    with workload.running():
        agent.wait_until_said("following", within=120)
        time.sleep(chance.random())
        agent.kill()
        agent.start().wait_until_said("following", within=120)
    mark(session, 1)
    wait_until_landed(run, 1, within=120)
    assert (workload.failed, workload.statements > 400) == (0, True)
    assert agent.metric("quarantined_total") == 0
    assert agent.stop() == 0
    assert differences(session, run) == []

    # the comparison can fail: by events that landed and are lost
    lose(run, ORDERS, "_kind = 'row' AND tenant = 't1'")
    assert len(differences(session, run, tables=TABLES[:1])) > 0
