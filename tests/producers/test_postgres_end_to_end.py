"""PostgreSQL, a real server, through a producer that is killed, to a view that equals the source's own SELECT."""

from __future__ import annotations

import random
import time

import pytest
from helpers.command_line import CommandLine
from helpers.comparing import lose
from helpers.postgres_tables import TABLES, Workload
from helpers.postgres_views import differences, landed_twice, wait_until_landed
from helpers.producing import Producer
from services.postgres import Postgres

pytestmark = pytest.mark.heavy


def test_the_view_equals_the_source_after_kills(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    workload, chance = Workload(postgres, seed=1), random.Random(1)
    workload.run(150)
    producer.start()
    with workload.running():
        for wait in ("snapshot at", "following slot"):
            producer.wait_until_said(wait)
            time.sleep(chance.random())
            producer.kill()
            producer.start()
        producer.wait_until_said("following slot")
    types = TABLES[0]
    # the last of the workload may have been a TRUNCATE
    postgres.sql(f"INSERT INTO {types} (id) VALUES (1), (2) ON CONFLICT DO NOTHING")
    wait_until_landed(postgres)
    assert workload.transactions > 300
    assert producer.metric("quarantined_total") == 0
    assert producer.stop() == 0
    assert differences(postgres, run) == []
    assert landed_twice() == 0

    # the comparison can fail: by an event that landed and is lost, and by a change that nobody landed
    (lost,), (changed,) = postgres.sql(f"SELECT id FROM {types} ORDER BY id LIMIT 2")
    lose(run, types, f"id = {lost}")
    postgres.sql(f"UPDATE {types} SET toast = 'other' WHERE id = {changed}")
    assert len(differences(postgres, run, types)) == 3
