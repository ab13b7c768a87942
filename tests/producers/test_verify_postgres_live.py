"""`verify` against a real PostgreSQL: injected losses are found and named, and writes that go on are no loss."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import TABLES, Workload
from helpers.postgres_views import wait_until_landed
from helpers.producing import Producer
from services.postgres import Postgres

pytestmark = pytest.mark.live

SECONDS = float(os.environ.get("CDC_VIEWS_VERIFY_SECONDS", "40"))


@pytest.fixture
def source(postgres: Postgres, producer: Producer, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    """The server, which `verify` finds by the environment; the producer of 27 types follows it."""
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    return postgres


def verify(run: CommandLine, table: str, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    began = time.monotonic()
    answer = run("verify", table, "--source", "postgresql://", "--format", "jsonl", "--wait", "15", "--rate", "0", *more)
    print(f"{time.monotonic() - began:.1f} s: {answer.err.strip()}")
    assert answer.code in (0, 1), answer.err
    return answer.code, [json.loads(line) for line in answer.out.splitlines()], answer.err


def test_no_false_alarm_while_every_type_is_written(source: Postgres, producer: Producer, run: CommandLine) -> None:
    workload = Workload(source, seed=3)
    workload.run(200)
    producer.start()
    producer.wait_until_said("following")
    runs, until = 0, time.monotonic() + SECONDS
    with workload.running(pause=0.02):
        while time.monotonic() < until:
            for table in TABLES:
                code, found, said = verify(run, table)
                assert (code, [one for one in found if one["verdict"] == "loss"]) == (0, []), (found, said)
                runs += 1
    wait_until_landed(source)
    for table in TABLES:
        code, found, said = verify(run, table)
        assert (code, found, "equal" in said) == (0, [], True), (found, said)
    print(f"{runs} runs during {workload.transactions} transactions, no false alarm")
