"""PostgreSQL through Kafka: published by a producer that is killed, landed by another, equal to the source's own SELECT."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from postgres_tables import DDL, STORAGE, TABLES, Workload, project
from postgres_views import differences, wait_until_landed
from producing import Producer, eventually
from services.kafka import Kafka
from services.postgres import Postgres
from services.registry import Registry
from services.registry import running as running_registry

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
    if made.running is not None and made.running.poll() is None:
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
    workload.run(100)
    options = ["--output-format", output]
    publisher.start(*options)
    with workload.running():
        for _ in range(3):
            publisher.wait_until_said("following slot")
            time.sleep(1 + chance.random() * 2)
            publisher.kill()
            publisher.start(*options)
        publisher.wait_until_said("following slot")
        kafka.kill()
        publisher.wait_until_said("nothing is lost", within=60)
        kafka.start()
        time.sleep(2)
    wait_until_landed(postgres, within=120)
    assert publisher.metric("quarantined_total") == 0
    assert publisher.stop() == 0

    topics = [f"{PREFIX}.{name}" for name in TABLES]
    assert sum(len(kafka.read(topic)) for topic in topics) > 300
    consuming(tmp_path)
    consumer = Producer(tmp_path, {**kafka.environment, "CDC_VIEWS_SCHEMA_REGISTRY_URL": registry.address}, ["kafka"]).start()
    try:
        eventually(lambda: all(kafka.landed(GROUP, topic) for topic in topics), within=90, every=0.5)
        assert consumer.metric("quarantined_total") == 0
        assert consumer.stop() == 0
    finally:
        if consumer.running is not None and consumer.running.poll() is None:
            consumer.kill()
    assert differences(postgres, run) == []


def test_what_no_message_can_say_goes_to_a_topic_of_its_own(publisher: Producer, kafka: Kafka, postgres: Postgres) -> None:
    postgres.sql("INSERT INTO public.t_types (id, t) VALUES (1, 'x')")
    publisher.start()
    publisher.wait_until_said("following slot")
    assert [message.key() for message in kafka.read(f"{PREFIX}.public.t_types")] == [b'{"id":1}']
    postgres.sql("TRUNCATE public.t_types")
    eventually(lambda: publisher.metric("quarantined_total") == 1)
    (dead,) = kafka.read(f"{PREFIX}.public.t_types__quarantine")
    assert dict(dead.headers())["reason"].startswith(b"a truncation names no keys")
    assert publisher.stop() == 0
