"""Killed while it lands at full speed: what the raw table has is each message of the topic, once."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.kafka_topics import GROUP, ORDERS, TOPICS, create, lost_and_twice, places, project, raw_table
from helpers.producing import Producer, eventually
from services.kafka import Kafka

pytestmark = [pytest.mark.live, pytest.mark.slow]
TOPIC, PARTITIONS = TOPICS[ORDERS], 4
KILLS = int(os.environ.get("CDC_VIEWS_KILLS", "20"))
MESSAGES_EACH = 30_000


def message(number: int) -> tuple[bytes, bytes]:
    row = {"id": number, "state": "open", "amount": number / 100, "at": 1_700_000_000_000_000 + number}
    source = {"connector": "postgresql", "lsn": 1000 + number, "db": "lab", "schema": "shop", "table": "orders", "ts_ms": 1}
    value = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1}
    return json.dumps({"id": number}).encode(), json.dumps(value).encode()


def rows(folder: Path) -> int:
    """How many rows have landed."""
    table = raw_table(folder)
    return 0 if table is None else table.to_pyarrow_dataset().count_rows()


def test_kills_at_full_speed_lose_nothing_and_land_nothing_twice(kafka: Kafka, run: CommandLine, tmp_path: Path) -> None:
    create(kafka, partitions=PARTITIONS)
    project(tmp_path)
    producer, chance = Producer(tmp_path, kafka.environment, ["kafka"]), random.Random(7)
    landed, early = [0], 0
    for nth in range(KILLS):
        for number in range(nth * MESSAGES_EACH, (nth + 1) * MESSAGES_EACH):
            kafka.produce(TOPIC, message(number), partition=number % PARTITIONS)
        kafka.flush()
        producer.start().wait_until_said("reading topic")
        if nth % 2:
            eventually(lambda: rows(tmp_path) > landed[-1], within=60, what="a commit", every=0.02)
        time.sleep(chance.random())
        producer.kill()
        landed.append(rows(tmp_path))
        early += landed[-1] < (nth + 1) * MESSAGES_EACH
    producer.start()
    eventually(lambda: kafka.committed(GROUP, TOPIC) == kafka.ends(TOPIC), within=180, what="everything has landed")
    assert producer.stop() == 0
    found, ends = places(tmp_path), kafka.ends(TOPIC)
    assert sum(ends.values()) == KILLS * MESSAGES_EACH
    assert lost_and_twice(found, ends) == (0, 0)
    assert lost_and_twice([*found[1:], found[1]], ends) == (1, 1)  # it could tell
    assert len(set(landed)) > KILLS // 3, landed  # some came after a commit
    assert early > KILLS // 3, landed  # and most before all had landed
