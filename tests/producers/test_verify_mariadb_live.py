"""`verify` against a real MariaDB: injected losses are found and named, and writes that go on are no loss."""

from __future__ import annotations

from functools import partial

import pytest
from helpers.command_line import CommandLine
from helpers.lost_rows import LostRows
from helpers.mariadb_tables import RETYPING, TABLES, Workload
from helpers.mariadb_views import wait_until_landed
from helpers.producing import Producer
from helpers.verified import Verifying, paced
from services.mariadb import MariaDb

pytestmark = pytest.mark.live

TYPES, KEYS = TABLES


@pytest.fixture
def source(mariadb: MariaDb, mariadb_producer: Producer, monkeypatch: pytest.MonkeyPatch) -> MariaDb:
    """The server, which `verify` finds by the environment; the producer of 40 types follows it."""
    for name, value in mariadb.environment.items():
        monkeypatch.setenv(name, value)
    return mariadb


@pytest.fixture
def verify(run: CommandLine) -> Verifying:
    return Verifying(run, "mariadb://", wait=20)


def test_no_false_alarm_while_every_type_is_written(source: MariaDb, mariadb_producer: Producer, verify: Verifying) -> None:
    workload = Workload(source, seed=3)
    workload.run(200)
    mariadb_producer.start()
    mariadb_producer.wait_until_said("following")
    verify.stays_quiet(TABLES, workload.running(pause=paced(0.05)), lambda: wait_until_landed(source))


def test_losses_of_thirteen_kinds_are_named(
    source: MariaDb, mariadb_producer: Producer, run: CommandLine, verify: Verifying
) -> None:
    LostRows(run, verify, mariadb_producer, KEYS, "w", source.sql, partial(wait_until_landed, source), TYPES, RETYPING).proven()
    code, found, said = verify(KEYS, "--sample", "0", "--chunk", "20", "--rate", "100")
    assert (code, bool(found)) == (1, True), said
