"""Kafka and its registry come and go, retention deletes, topics are made anew, consumers share: nothing is lost unnoticed."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.kafka_avro import framed
from helpers.kafka_topics import GROUP, ORDERS, TOPICS, USERS, Writer, differences, lost_and_twice, places
from helpers.producing import Producer, eventually
from services.kafka import Kafka
from services.registry import running as running_registry

pytestmark = pytest.mark.live
TOPIC = TOPICS[USERS]
KILLS = int(os.environ.get("CDC_VIEWS_KILLS", "20"))


def all_landed(kafka: Kafka) -> bool:
    return all(kafka.committed(GROUP, topic) == kafka.ends(topic) for topic in TOPICS.values())


def wait_until_landed(kafka: Kafka) -> None:
    eventually(lambda: all_landed(kafka), within=90, what="everything has landed", every=0.5)


def user(name: str, age: int) -> tuple[bytes, bytes]:
    return name.encode(), json.dumps({"id": name, "name": "x", "age": age}).encode()


def ages(run: CommandLine) -> dict[str, int]:
    return {row["id"]: row["age"] for row in run.query(USERS)}


def test_a_broker_that_is_killed_is_waited_for(kafka_producer: Producer, kafka: Kafka, run: CommandLine) -> None:
    producer, writer = kafka_producer.start(), Writer(kafka, seed=2)
    writer.write(200)
    producer.wait_until_said("reading topic")
    kafka.kill()
    producer.wait_until_said("no broker of Kafka answers")
    assert "nothing is lost" in " ".join(line["message"] for line in producer.said)
    assert producer.get("/healthz")[0] == 503
    kafka.start()
    writer.write(200)
    wait_until_landed(kafka)
    assert producer.get("/healthz")[0] == 200
    assert producer.stop() == 0
    assert differences(writer, run) == []


def test_what_retention_deleted_before_it_landed_ends_it(kafka_producer: Producer, kafka: Kafka, run: CommandLine) -> None:
    producer = kafka_producer.start()
    kafka.send(TOPIC, [user("a", 1), user("b", 1)], partition=0)
    wait_until_landed(kafka)
    assert producer.stop() == 0
    kafka.configure(TOPIC, {"cleanup.policy": "delete", "segment.ms": "3600000"})
    kafka.send(TOPIC, [user("a", 2), user("b", 2), user("c", 2)], partition=0)
    kafka.drop_before(TOPIC, 0, 4)
    producer.start()
    eventually(lambda: producer.running.poll() is not None, within=60, what="it ends")  # type: ignore[union-attr]
    assert producer.running is not None
    assert producer.running.returncode == 3
    (said,) = [line["message"] for line in producer.said if line["level"] == "error"]
    assert "partition 0: messages 2 to 3 have not landed, and the broker has deleted them" in said
    assert "--accept-gap" in said
    producer.start("--accept-gap")
    wait_until_landed(kafka)
    assert producer.stop() == 0
    assert ages(run) == {"a": 1, "b": 1, "c": 2}


def test_a_topic_that_is_made_anew_while_it_is_read_ends_it(kafka_producer: Producer, kafka: Kafka, run: CommandLine) -> None:
    producer = kafka_producer.start()
    kafka.send(TOPIC, [user(name, 1) for name in "abcd"], partition=0)
    wait_until_landed(kafka)
    kafka.delete(TOPIC)
    kafka.create(TOPIC, partitions=2)
    # as many as before, so that its offsets alone would not tell
    kafka.send(TOPIC, [user("a", 2), *[user("b", age) for age in range(2, 9)]], partition=0)
    eventually(lambda: producer.running.poll() is not None, within=60, what="it ends")  # type: ignore[union-attr]
    said = " ".join(line["message"] for line in producer.said)
    assert producer.running is not None
    assert producer.running.returncode == 3
    assert f"topic {TOPIC} was deleted and made anew" in said
    producer.start("--accept-gap")
    wait_until_landed(kafka)
    assert producer.stop() == 0
    assert ages(run) == {"a": 2, "b": 8, "c": 1, "d": 1}
    # and goes on in the new topic without being asked again
    kafka.send(TOPIC, [user("a", 9)], partition=0)
    producer.start()
    wait_until_landed(kafka)
    assert producer.stop() == 0
    assert ages(run)["a"] == 9


def test_two_that_share_the_partitions_lose_nothing(
    kafka_producer: Producer, kafka: Kafka, run: CommandLine, tmp_path: Path
) -> None:
    first, writer = kafka_producer.start(), Writer(kafka, seed=3)
    environment = {**kafka.environment, "CDC_VIEWS_KAFKA_GROUP_INSTANCE_ID": "two"}
    second = Producer(tmp_path, environment, ["kafka"], runs=100)
    first.wait_until_said("reading topic")
    with writer.writing(pause=0.05):
        second.start()
        second.wait_until_said("reading topic")
        kafka.grow(TOPICS[ORDERS], partitions=4)
        time.sleep(3)
        second.kill()
        second.start()
        time.sleep(12)
        first.kill()
        first.start().wait_until_said("reading topic")
        time.sleep(3)
        second.kill()
        second.start("--group", "another").wait_until_said("reading topic")  # goes on from what has landed, whatever its group
        time.sleep(3)
    kafka.send(TOPICS[ORDERS], [(b'{"id": 1}', b"no event")], partition=3)
    wait_until_landed(kafka)
    assert first.stop() == 0
    assert second.stop() == 0
    assert differences(writer, run) == []
    found = places(tmp_path)
    assert lost_and_twice(found, {}) == (0, 0)
    assert lost_and_twice([*found, found[0]], {}) == (0, 1)  # it could tell


def test_a_topic_that_comes_later_is_found_and_latest_is_remembered(
    kafka_producer: Producer, kafka: Kafka, run: CommandLine
) -> None:
    kafka.delete(TOPIC)
    kafka.send(TOPICS[ORDERS], [(b'{"id": 1}', b"before the beginning")], partition=0)
    producer = kafka_producer.start("--from", "latest")
    producer.wait_until_said(f"there is no topic {TOPIC} yet")
    producer.wait_until_said("reading topic lab.shop.orders, partition 0, from 1")
    producer.kill()
    kafka.send(TOPICS[ORDERS], [(b'{"id": 1}', b"while nobody reads")], partition=0)
    kafka.create(TOPIC, partitions=2)
    producer.start("--from", "latest")
    producer.wait_until_said("reading topic lab.shop.orders, partition 0, from 1")
    wait_until_landed(kafka)
    assert producer.metric("quarantined_total", table=ORDERS) == 1
    assert producer.stop() == 0


def test_a_registry_that_is_away_is_waited_for(kafka: Kafka, run: CommandLine, tmp_path: Path) -> None:
    from helpers.kafka_topics import create, project

    create(kafka)
    project(tmp_path)
    schemas = [
        {
            "type": "record",
            "name": "Value",
            "fields": [{"name": "name", "type": ["null", "string"]}, {"name": "age", "type": "int"}],
        },
        {"type": "record", "name": "Value", "fields": [{"name": "age", "type": "int"}]},
    ]
    with running_registry() as registry:
        numbers = [registry.add(schema) for schema in schemas]
        kafka.send(TOPIC, [(b"a", framed(numbers[0], schemas[0], {"name": "x", "age": 1}))])
        producer = Producer(tmp_path, kafka.environment, ["kafka", "--registry", registry.address]).start()
        try:
            wait_until_landed(kafka)
            registry.stop()
            kafka.send(TOPIC, [(b"b", framed(numbers[1], schemas[1], {"age": 2})), (b"c", framed(77, schemas[1], {"age": 3}))])
            producer.wait_until_said(f"schema registry {registry.address} does not answer")
            assert producer.get("/healthz")[0] == 503
            assert ages(run) == {"a": 1}
            registry.start()
            wait_until_landed(kafka)
            assert ages(run) == {"a": 1, "b": 2}
            assert producer.metric("quarantined_total", table=USERS) == 1
            assert registry.asked < 20
            assert producer.stop() == 0
        finally:
            if producer.is_alive:
                producer.kill()


@pytest.mark.slow
def test_kills_at_random_lose_nothing(kafka_producer: Producer, kafka: Kafka, run: CommandLine) -> None:
    producer, writer, chance = kafka_producer.start(), Writer(kafka, seed=4), random.Random(4)
    with writer.writing(pause=0.05):
        for _ in range(KILLS):
            time.sleep(2 + chance.random() * 6)
            producer.kill()
            producer.start()
    wait_until_landed(kafka)
    assert producer.stop() == 0
    assert differences(writer, run) == []
