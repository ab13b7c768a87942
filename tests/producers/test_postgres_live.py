"""PostgreSQL for minutes: many kills, DDL, servers and targets that go away, events that cannot land, a slot that is lost."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, TABLES, Workload
from helpers.postgres_views import SLOT, differences, landed_twice, raw_location, wait_until_landed
from helpers.producing import Producer, eventually
from services.postgres import Postgres

pytestmark = pytest.mark.live

KILLS = int(os.environ.get("CDC_VIEWS_KILLS", "20"))
SEED = int(os.environ.get("CDC_VIEWS_SEED", "7"))


def test_many_kills_and_a_column_that_comes(producer: Producer, postgres: Postgres, run: CommandLine, tmp_path: Path) -> None:
    workload, chance = Workload(postgres, seed=SEED), random.Random(SEED)
    workload.run(1000)
    producer.start()
    with workload.running(pause=0.02):
        for kill in range(KILLS):
            if chance.random() < 0.7:
                producer.wait_until_said("following slot")
            time.sleep(chance.random() * 2.5)
            producer.kill()
            if kill == KILLS // 2:
                postgres.sql("ALTER TABLE public.t_full ADD COLUMN extra int; UPDATE public.t_full SET extra = b")
            producer.start()
        producer.wait_until_said("following slot")
        postgres.sql("UPDATE public.t_full SET extra = b + 1 WHERE b > 3")
        # on a busy machine it is far behind by now: most of its runs were short
        producer.wait_until_said("went to quarantine", within=240)
        (tmp_path / "schema.sql").write_text(DDL + "ALTER TABLE public.t_full ADD COLUMN extra int;\n")
        producer.wait_until_said("follows the changed schema")
        postgres.sql("UPDATE public.t_full SET extra = b + 2 WHERE b > 5")
    wait_until_landed(postgres, within=240)
    assert producer.stop() == 0
    assert run("replay", TABLES[1]).code == 0
    assert differences(postgres, run) == []
    assert landed_twice() == 0
    assert any(row["extra"] for row in run.query(TABLES[1]))


def test_server_and_target_go_away_and_come_back(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    workload = Workload(postgres, seed=SEED)
    workload.run(100)
    producer.start().wait_until_said("following slot")
    wait_until_landed(postgres)
    raw = Path(raw_location(TABLES[0]))
    raw.rename(f"{raw}-away")
    raw.write_text("in the way")
    workload.run(200)
    producer.wait_until_said("nothing is lost")
    assert producer.get("/healthz")[0] == 503
    raw.unlink()
    Path(f"{raw}-away").rename(raw)
    wait_until_landed(postgres)
    assert eventually(lambda: producer.get("/healthz")[0] == 200)
    workload.connection.close()
    postgres.stop()
    producer.wait_until_said("PostgreSQL is away")
    postgres.start()
    Workload(postgres, seed=SEED + 1).run(100)
    wait_until_landed(postgres)
    begun = time.monotonic()
    assert producer.stop() == 0
    assert time.monotonic() - begun < 5
    assert differences(postgres, run) == []
    assert landed_twice() == 0


def test_an_event_that_cannot_land_waits_in_quarantine(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    producer.start("--on-error", "exit").wait_until_said("following slot")
    postgres.sql("INSERT INTO public.t_types (id, n_unb) VALUES (1, 1), (2, 'NaN'), (3, 3)")
    assert producer.running is not None
    assert producer.running.wait(30) == 1
    assert "2 events" not in producer.log.read_text()
    assert len(differences(postgres, run)) == 1
    producer.start()
    postgres.sql("UPDATE public.t_types SET n_unb = 2 WHERE id = 2")
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert differences(postgres, run) == []


def test_a_slot_that_is_lost_is_told_and_a_snapshot_mends_it(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    Workload(postgres, seed=SEED).run(50)
    postgres.sql("INSERT INTO public.t_types (id) VALUES (150)")
    producer.start().wait_until_said("following slot")
    wait_until_landed(postgres)
    assert producer.stop() == 0
    postgres.sql("DELETE FROM public.t_types WHERE id = 150")
    postgres.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    postgres.sql("SELECT pg_reload_conf()")
    try:
        for _ in range(4):
            postgres.sql("CREATE TABLE public.filler AS SELECT 1; DROP TABLE public.filler")
            postgres.sql("SELECT pg_switch_wal()")
        postgres.sql("CHECKPOINT")
        eventually(lambda: postgres.sql("SELECT wal_status FROM pg_replication_slots") == [("lost",)], within=20)
    finally:
        postgres.sql("ALTER SYSTEM RESET max_slot_wal_keep_size")
        postgres.sql("SELECT pg_reload_conf()")
    for said in ("is lost: the server removed log", "is gone, though tables have landed from it"):
        producer.start()
        assert producer.running is not None
        assert producer.running.wait(30) == 3
        assert said in producer.log.read_text()
        producer.start("--drop", "slot")
        assert producer.running.wait(30) == 0
        assert postgres.sql("SELECT count(*) FROM pg_replication_slots") == [(0,)]
    assert differences(postgres, run) != []
    producer.start("--snapshot-again").wait_until_said("following slot")
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert differences(postgres, run) == []
    producer.start().wait_until_said("following slot")
    postgres.sql("UPDATE public.t_types SET t = 'goes on'")
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert differences(postgres, run) == []


def test_a_table_that_comes_later_is_read_beside_the_stream(producer: Producer, postgres: Postgres, run: CommandLine) -> None:
    workload = Workload(postgres, seed=SEED)
    workload.run(100)
    with workload.running():
        producer.start("--table", TABLES[0]).wait_until_said("following slot")
        assert producer.stop() == 0
        producer.start().wait_until_said(f"{TABLES[1]}: snapshot: read all")
        producer.wait_until_said("following slot")
    wait_until_landed(postgres)
    assert producer.stop() == 0
    assert differences(postgres, run) == []
    assert postgres.sql("SELECT count(*) FROM pg_replication_slots") == [(1,)], SLOT
