"""Cassandra through Kafka: the agents of three nodes publish to the same topics, killed meanwhile, and a machine that sees no
node lands them: its views are what the cluster answers.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")
pytest.importorskip("confluent_kafka")

from helpers.cassandra_trial import Trial
from helpers.cassandra_workload import TABLES, Workload
from helpers.command_line import CommandLine
from helpers.producing import Producer
from services.kafka import Kafka

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live


def test_agents_publish_to_the_same_topics_and_what_lands_from_there_is_the_cluster(
    cassandra_cluster: CassandraCluster, kafka: Kafka, run: CommandLine, tmp_path: Path
) -> None:
    options = ("--snapshot-consistency", "ALL", "--to", f"kafka://{kafka.address}", "--topic-prefix", "out")
    trial = Trial(cassandra_cluster, run, tmp_path, 3, options=options)
    lander = Producer(tmp_path / "lander", kafka.environment, ["kafka", "--project", str(tmp_path / "cdc_views.yml")])
    lander.folder.mkdir()
    try:
        trial.loads.append(Workload(trial.session, trial.keyspace, 31))
        trial.loads[0].run(60)
        trial.start()
        lander.start()
        with trial.loaded(pause=0.02):
            for agent in (trial.agents[0], trial.agents[1], trial.agents[0]):
                time.sleep(2)
                agent.kill()
                agent.start()
                agent.wait_until_said("following", within=120)
        trial.check()
        for table in TABLES:
            messages = kafka.read(f"out.{trial.keyspace}.{table}")
            assert len(messages) > 10
            assert all(json.loads(message.key()) == json.loads(message.value())["partition"] for message in messages)
            nodes = {json.loads(message.value())["node"] for message in messages}
            assert nodes >= set(trial.cluster.addresses), "no agent has ended another"
        assert lander.metric("quarantined_total") == 0
        trial.stop()
        assert lander.stop() == 0
    finally:
        if lander.is_alive:
            lander.kill()
        trial.end()
