"""A slot on a standby: the primary pays for neither decoding nor the producer's connections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, STORAGE, Workload, project
from helpers.postgres_views import SLOT, differences, landed_twice, wait_until_landed
from helpers.producing import Producer, ended
from services.postgres import Postgres, running
from services.postgres_standby import standby_of

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    """A primary, and a standby that follows it."""
    with running() as primary, standby_of(primary) as standby:
        primary.sql(DDL + STORAGE)
        yield primary, standby


def producer_on(server: Postgres, folder: Path) -> Producer:
    return Producer(folder, dict(server.environment), ["postgres", "--confirm", "0.5"])


def test_a_producer_reads_from_a_standby(servers: tuple[Postgres, Postgres], run: CommandLine, tmp_path: Path) -> None:
    primary, standby = servers
    project(tmp_path)
    workload = Workload(primary, seed=5)
    workload.run(200)
    producer = producer_on(standby, tmp_path)
    assert "with --server standby" in ended(producer.start(), 2)
    said = json.loads(ended(producer.start("--server", "standby"), 2).splitlines()[-1])["message"]
    found = re.search(r"have it done: (.*)\): cannot execute CREATE PUBLICATION in a read-only transaction", said)
    assert found is not None, said
    primary.sql(found[1])
    with workload.running(pause=0.02):
        producer.start("--server", "standby").wait_until_said("following slot", within=90)
    workload.run(300)
    wait_until_landed(primary, slot_on=standby, within=90)
    producer.kill()
    workload.run(300)
    producer.start("--server", "standby").wait_until_said("following slot")
    wait_until_landed(primary, slot_on=standby, within=90)
    assert producer.stop() == 0
    assert differences(primary, run) == []
    assert landed_twice() == 0
    assert primary.sql("SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical'") == [(0,)]
    assert standby.sql("SELECT plugin FROM pg_replication_slots WHERE slot_name = %s", (SLOT,)) == [("pgoutput",)]
