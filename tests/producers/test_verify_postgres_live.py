"""`verify` against a real PostgreSQL: injected losses are found and named, and writes that go on are no loss."""

from __future__ import annotations

from functools import partial

import pytest
from helpers.command_line import CommandLine
from helpers.lost_rows import LostRows
from helpers.postgres_tables import TABLES, Workload
from helpers.postgres_views import wait_until_landed
from helpers.producing import Producer
from helpers.verified import Verifying, paced
from services.postgres import Postgres

pytestmark = pytest.mark.live


@pytest.fixture
def source(postgres: Postgres, producer: Producer, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    """The server, which `verify` finds by the environment; the producer of 27 types follows it."""
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    return postgres


@pytest.fixture
def verify(run: CommandLine) -> Verifying:
    return Verifying(run, "postgresql://", wait=15)


def test_no_false_alarm_while_every_type_is_written(source: Postgres, producer: Producer, verify: Verifying) -> None:
    workload = Workload(source, seed=3)
    workload.run(200)
    producer.start()
    producer.wait_until_said("following")
    runs = verify.stays_quiet(TABLES, workload.running(pause=paced(0.02)), lambda: wait_until_landed(source))
    print(f"{runs} runs during {workload.transactions} transactions, no false alarm")


TABLE = "public.t_full"


def test_losses_of_thirteen_kinds_are_named(source: Postgres, producer: Producer, run: CommandLine, verify: Verifying) -> None:
    retyping = ["ALTER TABLE public.t_types ALTER small TYPE text USING 'five'"]
    LostRows(run, verify, producer, TABLE, "toast", source.sql, partial(wait_until_landed, source), TABLES[0], retyping).proven()
