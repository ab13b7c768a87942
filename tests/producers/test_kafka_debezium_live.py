"""PostgreSQL → Debezium's connector in Kafka Connect → topics → raw → view, equal to the source's own SELECT."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, STORAGE, TABLES, Workload, project
from helpers.postgres_views import differences
from helpers.producing import Producer, eventually
from services.connect import running
from services.kafka import Kafka
from services.postgres import Postgres

pytestmark = pytest.mark.live
GROUP = "cdc_views_shop"
# without the whole old row Debezium sends no large value along with a new key (rule S4)
WHOLE = "ALTER TABLE public.t_types REPLICA IDENTITY FULL;"


class Stripped(Workload):
    """The workload without zeros at the end of a `numeric` without a scale: Debezium takes them away (1.500 comes as 1.5)."""

    def _makers(self) -> dict[str, Any]:
        return {**super()._makers(), "n_unb": lambda: self.random.choice(("1e20", "0.1", "-12345678901234567890.123456789", "0"))}


def read_by_now(server: Postgres) -> str:
    """The server's position now."""
    ((end,),) = server.sql("SELECT pg_current_wal_lsn()::text")
    return str(end)


def test_the_view_equals_the_source_through_debezium(postgres: Postgres, kafka: Kafka, run: CommandLine, tmp_path: Path) -> None:
    postgres.sql(DDL + STORAGE + WHOLE)
    project(tmp_path)
    workload = Stripped(postgres, seed=6)
    workload.run(60)
    producer = Producer(tmp_path, kafka.environment, ["kafka"]).start()
    try:
        with running(kafka, postgres, ",".join(TABLES)) as worker:
            with workload.running(pause=0.05):
                producer.wait_until_said("reading topic", within=90)
                worker.kill()
                producer.kill()
                producer.start()
                worker.start()
                time.sleep(3)
            end = read_by_now(postgres)
            asked = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = 'debezium'"
            eventually(lambda: postgres.sql(asked, (end,)) == [(True,)], within=120, every=0.5, what="the connector confirms")
        eventually(lambda: all(kafka.landed(GROUP, f"lab.{name}") for name in TABLES), within=120, every=0.5, what="landed")
        assert producer.metric("quarantined_total") == 0
        assert producer.stop() == 0
    finally:
        if producer.is_alive:
            producer.kill()
    assert workload.transactions > 80
    assert differences(postgres, run) == []
