"""`verify` against a real MariaDB: injected losses are found and named, and writes that go on are no loss."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from helpers.command_line import CommandLine
from helpers.comparing import raw_location
from helpers.corrupting import silently
from helpers.mariadb_tables import TABLES, Workload
from helpers.mariadb_views import wait_until_landed
from helpers.producing import Producer
from helpers.verified import Verifying
from services.mariadb import MariaDb

pytestmark = pytest.mark.live

KEYS = "shop.t_keys"


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
    verify.stays_quiet(TABLES, workload.running(pause=0.05), lambda: wait_until_landed(source))


def test_losses_are_named_and_the_load_is_bounded(
    source: MariaDb, mariadb_producer: Producer, run: CommandLine, verify: Verifying
) -> None:
    mariadb_producer.start()
    mariadb_producer.wait_until_said("following")
    source.sql(*(f"INSERT INTO {KEYS} (a, b, v) VALUES ('a', {number}, 'first')" for number in range(60)))
    for number in range(10):
        source.sql(
            f"INSERT INTO {KEYS} (a, b, v) VALUES ('lost', {number}, 'row')",
            f"UPDATE {KEYS} SET v = 'second' WHERE b = {10 + number}",
            f"DELETE FROM {KEYS} WHERE b = {20 + number}",
        )
    wait_until_landed(source)
    assert verify(KEYS)[:2] == (0, [])
    assert mariadb_producer.stop() == 0

    def lost(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        def is_lost(row: dict[str, Any]) -> bool:
            second = (row["v"] or {}).get("value") == "second"
            return row["a"] == "lost" or second or (row["_deleted"] is not None and 20 <= (row["b"] or 0) < 30)

        left = [row for row in rows if not is_lost(row)]
        return left if len(left) < len(rows) else None

    def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        mine = [row for row in rows if 40 <= (row["b"] or 0) < 60]
        for row in mine:
            row["w"]["value"] = "changed"
        return rows if mine else None

    assert silently(raw_location(KEYS), lost, most=999)
    assert silently(raw_location(KEYS), changed, most=999)
    assert run("rebuild", KEYS, "--accept").code == 0
    mariadb_producer.start()
    mariadb_producer.wait_until_said("following")
    source.sql(f"INSERT INTO {KEYS} (a, b, v) VALUES ('end', 1, 'end')")
    wait_until_landed(source)
    code, found, said = verify(KEYS, "--sample", "0", "--chunk", "20", "--rate", "100")
    assert code == 1, said
    told = Counter((one["place"], one["what"]) for one in found if one["verdict"] == "loss")
    assert told == {("raw", "missing row"): 10, ("raw", "missing write"): 10 + 20, ("raw", "lost deletion"): 10}, (told, said)
