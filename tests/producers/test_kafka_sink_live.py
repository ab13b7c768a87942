"""PostgreSQL through Kafka: published by a producer that is killed, landed by another, equal to the source's own SELECT."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.kafka.settings import connection
from cdc_producers.kafka.transactions import Outgoing, Publisher
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka.admin import ConfigResource
from helpers.captured import Said
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, STORAGE, TABLES, Workload, project
from helpers.postgres_views import differences, wait_until_landed
from helpers.producing import Producer, eventually
from services.kafka import Kafka
from services.postgres import Postgres
from services.registry import Registry
from services.registry import running as running_registry

from cdc_views.errors import TransientError, UsageError
from cdc_views.landing import Position

pytestmark = pytest.mark.live
GROUP = "cdc_views_shop"
PREFIX = "out"


class Keyed(Workload):
    """The workload without TRUNCATE, which names no keys."""

    def _statement(self) -> tuple[str, dict[str, Any]]:
        while True:
            found = super()._statement()
            if not found[0].startswith("TRUNCATE"):
                return found


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as service:
        yield service


@pytest.fixture
def publisher(postgres: Postgres, kafka: Kafka, registry: Registry, tmp_path: Path) -> Iterator[Producer]:
    """A producer of PostgreSQL's tables in a folder of its own, not started; it is to be told `--to`."""
    postgres.sql(DDL + STORAGE)
    folder = tmp_path / "source"
    folder.mkdir()
    project(folder)
    environment = {**postgres.environment, "CDC_VIEWS_SCHEMA_REGISTRY_URL": registry.address}
    made = Producer(folder, environment, ["postgres", "--to", f"kafka://{kafka.address}", "--topic-prefix", PREFIX])
    yield made
    if made.is_alive:
        made.kill()


def consuming(folder: Path) -> None:
    """Write a project of the same tables, as topics of keys and rows."""
    (folder / "schema.sql").write_text(DDL)
    tables = [{"name": name, "schema": "schema.sql", "raw": {"format": "key-value"}} for name in TABLES]
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))


@pytest.mark.parametrize("output", ["json", "avro"])
def test_what_is_published_lands_as_the_source_has_it(
    publisher: Producer, postgres: Postgres, kafka: Kafka, registry: Registry, run: CommandLine, tmp_path: Path, output: str
) -> None:
    workload, chance = Keyed(postgres, seed=5), random.Random(5)
    workload.run(60)
    options = ["--output-format", output]
    publisher.start(*options)
    with workload.running(pause=0.05):
        for _ in range(2):
            publisher.wait_until_said("following slot", within=90)
            time.sleep(1 + chance.random() * 2)
            publisher.kill()
            publisher.start(*options)
        publisher.wait_until_said("following slot", within=90)
        time.sleep(1)
    wait_until_landed(postgres, within=120)
    assert publisher.metric("quarantined_total") == 0
    assert publisher.stop() == 0

    topics = [f"{PREFIX}.{name}" for name in TABLES]
    assert sum(len(kafka.read(topic)) for topic in topics) > 100
    of_topics = kafka.admin.describe_configs([ConfigResource("topic", topic) for topic in topics]).values()
    assert {found.result(20)["cleanup.policy"].value for found in of_topics} == {"compact"}
    other = KafkaProducer({"bootstrap.servers": kafka.address, "transactional.id": "other", "log_level": 0})
    other.init_transactions(20)
    for key, ends in ((b"that would go to quarantine", other.abort_transaction), (b'{"id":5000}', other.commit_transaction)):
        other.begin_transaction()
        other.produce(topics[0], None, key, partition=0)
        other.flush(20)
        ends(20)
    consuming(tmp_path)
    consumer = Producer(tmp_path, {**kafka.environment, "CDC_VIEWS_SCHEMA_REGISTRY_URL": registry.address}, ["kafka"]).start()
    try:
        eventually(lambda: all(kafka.landed(GROUP, topic) for topic in topics), within=120, every=0.5)
        assert consumer.metric("quarantined_total") == 0
        assert consumer.stop() == 0
    finally:
        if consumer.is_alive:
            consumer.kill()
    assert differences(postgres, run) == []


def test_what_no_message_can_say_goes_to_a_topic_of_its_own(publisher: Producer, kafka: Kafka, postgres: Postgres) -> None:
    postgres.sql("INSERT INTO public.t_types (id, t) VALUES (1, 'x')")
    publisher.start()
    publisher.wait_until_said("following slot")
    topic = f"{PREFIX}.public.t_types"
    eventually(lambda: topic in kafka.admin.list_topics(timeout=10).topics and kafka.read(topic))
    assert [message.key() for message in kafka.read(topic)] == [b'{"id":1}']
    postgres.sql("TRUNCATE public.t_types")
    eventually(lambda: publisher.metric("quarantined_total") == 1)
    (dead,) = kafka.read(f"{topic}__quarantine")
    assert dict(dead.headers())["reason"].startswith(b"a truncation names no keys")
    assert publisher.stop() == 0


def test_a_transaction_is_whole_or_not_at_all(kafka: Kafka) -> None:
    """A broker killed while it commits, and a second producer of the same name: each message once, positions as committed."""
    log = Said()
    first = Publisher(connection(kafka.address), "offsets", "one", log)
    first.create("rows")
    assert first.position("s") is None
    first.commit("s", Position(1), [Outgoing("rows", b"k", b"1")])
    # a broker of Kafka 4.3.1 that is killed before it has written a commit's markers leaves them out for good, now and then
    eventually(lambda: first._end() == 2, within=20, what="the marker of the commit")
    kafka.kill()
    with pytest.raises(TransientError, match="no broker of Kafka answers"):
        first.commit("s", Position(2), [Outgoing("rows", b"k", b"lost or not, as the position says")])
    kafka.start()
    assert first.position("s") == Position(1)
    first.commit("s", Position(2, 5), [Outgoing("rows", b"k", b"2")], note="a:1-5")

    second = Publisher(connection(kafka.address), "offsets", "one", log)
    assert (second.position("s"), second.note("s")) == (Position(2, 5), "a:1-5")
    with pytest.raises(UsageError, match="another producer publishes under one"):
        first.commit("s", Position(3), [Outgoing("rows", b"k", b"twice")])
    second.commit("s", Position(3), [Outgoing("rows", b"k", b"3")])
    assert [message.value() for message in kafka.read("rows")] == [b"1", b"2", b"3"]

    # another one's open transaction hides what was committed behind it: it is waited for
    other = Publisher(connection(kafka.address), "offsets", "two", log)
    assert other.position("t") is None
    open_one = other._connected()
    open_one.begin_transaction()
    open_one.produce("offsets", b'{"at": 9, "nth": 0}', b"t")
    open_one.flush(10)
    second.commit("s", Position(4), [])
    begun = Publisher(connection(kafka.address), "offsets", "three", log)
    with ThreadPoolExecutor() as pool:
        position = pool.submit(begun.position, "s")
        time.sleep(2)
        assert not position.done()
        open_one.abort_transaction(10)
        assert position.result(60) == Position(4)
    assert begun.position("t") is None
