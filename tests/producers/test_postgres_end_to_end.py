"""PostgreSQL, a real server, through a producer that is killed, to a view that equals the source's own SELECT."""

from __future__ import annotations

import random
import time

from command_line import CommandLine
from deltalake import DeltaTable
from postgres_tables import TABLES, Workload
from postgres_views import differences, landed_twice, raw_location, wait_until_landed
from producing import Producer
from services.postgres import Postgres


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
    wait_until_landed(postgres)
    assert workload.transactions > 300
    assert producer.metric("quarantined_total") == 0
    assert producer.stop() == 0
    assert differences(postgres, run) == []
    assert landed_twice() == 0
    assert len(run.query(TABLES[0])) > 10

    # the comparison can fail: a change that nobody landed, and one that landed and was lost
    DeltaTable(raw_location(TABLES[0])).delete(f"id = {run.query(TABLES[0])[0]['id']}")
    assert len(differences(postgres, run)) == 1
    postgres.sql("UPDATE public.t_full SET v = 'other' WHERE ctid = (SELECT min(ctid) FROM public.t_full)")
    assert len(differences(postgres, run)) == 3
