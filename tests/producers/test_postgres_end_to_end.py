"""PostgreSQL, a real server, through a producer that is killed, to a view that equals the source's own SELECT."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from deltalake import DeltaTable
from postgres_tables import DDL, STORAGE, TABLES, Workload, canonical, project, source_rows
from producing import Producer, eventually
from services.postgres import Postgres

from cdc_views.api import Project

SLOT = "cdc_views_shop"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in a folder with a project of both tables."""
    monkeypatch.chdir(tmp_path)
    project(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def producer(postgres: Postgres, run: CommandLine, tmp_path: Path) -> Any:
    """A producer of both tables, not started."""
    postgres.sql(DDL + STORAGE)
    made = Producer(tmp_path, postgres.environment, ["postgres"])
    yield made
    if made.running is not None and made.running.poll() is None:
        made.kill()


def wait_until_landed(server: Postgres) -> None:
    """Until the slot is confirmed up to what the server has written by now."""
    ((end,),) = server.sql("SELECT pg_current_wal_lsn()::text")
    text = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    eventually(lambda: server.sql(text, (end, SLOT)) == [(True,)], within=40, what=f"slot {SLOT} at {end}")


def differences(server: Postgres, run: CommandLine) -> list[str]:
    """The rows that only one of source and view has; empty where they are equal."""
    found = []
    for table in TABLES:
        view = Counter(canonical(row) for row in run.query(table))
        source = Counter(source_rows(server, table))
        found += [f"{table}: only the source has {row}" for row in source - view]
        found += [f"{table}: only the view has {row}" for row in view - source]
    return found


def raw_location(table: str) -> str:
    """Where the raw table of the project in the working directory is."""
    return Project.load().table(table).location


def landed_twice() -> int:
    """How many facts of the raw tables say the same of the same key at the same position."""
    twice = 0
    for table, keys in zip(TABLES, (["id"], ["a", "b"]), strict=True):
        raw = DeltaTable(raw_location(table)).to_pyarrow_table()
        facts = [tuple(str(row[name]) for name in (*keys, "_kind", "_live", "_deleted")) for row in raw.to_pylist()]
        twice += len(facts) - len(set(facts))
    return twice


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
