"""Kafka, a real broker, through a producer that is killed, to views that equal what was written."""

from __future__ import annotations

import random
import time

import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine
from helpers.comparing import lose
from helpers.kafka_topics import CARTS, GROUP, ORDERS, TOPICS, USERS, Writer, differences
from helpers.producing import Producer, eventually
from services.kafka import Kafka

from cdc_views.api import Project

pytestmark = pytest.mark.live


def all_landed(kafka: Kafka) -> bool:
    """Whether the group has confirmed everything; it confirms what has landed, nothing else."""
    return all(kafka.committed(GROUP, topic) == kafka.ends(topic) for topic in TOPICS.values())


def test_the_views_equal_the_topics_after_a_kill(kafka_producer: Producer, kafka: Kafka, run: CommandLine) -> None:
    producer, writer, chance = kafka_producer, Writer(kafka, seed=1), random.Random(1)
    writer.write(300)
    producer.start()
    with writer.writing():
        producer.wait_until_said("reading topic")
        time.sleep(0.5 + chance.random())
        producer.kill()
        producer.start()
        producer.wait_until_said("reading topic")
        time.sleep(1)
    kafka.send(TOPICS[ORDERS], [(b'{"id": 1}', b"\x00\x00\x00\x00\x07poison"), (b'{"id": 1}', b"{half")], partition=0)
    eventually(lambda: all_landed(kafka), within=40, what="landed")
    assert producer.metric("quarantined_total", table=ORDERS) == 2
    eventually(lambda: producer.metric("lag_events") == 0, what="lag told")
    assert producer.stop() == 0
    assert differences(writer, run) == []

    # each message landed once
    for table in (ORDERS, USERS, CARTS):
        raw = DeltaTable(Project.load().table(table).location).to_pyarrow_table()
        facts = [(*row["_origin"].values(), row["_kind"]) for row in raw.select(["_origin", "_kind"]).to_pylist()]
        assert len(facts) == len(set(facts)) > 50

    # the comparison can fail: by an event that landed and is lost
    lost = next(iter(writer.rows[ORDERS]))
    lose(run, ORDERS, f"id = {lost}")
    assert len(differences(writer, run)) == 1
