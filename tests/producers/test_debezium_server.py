"""A real Debezium Server on a real PostgreSQL, posting to the receiver: nothing is lost, the views equal the source's rows.

Its password is wrong, its token expires, the receiver is killed and started again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import CommandLine
from helpers.postgres_tables import DDL, STORAGE, TABLES, Workload, project
from helpers.postgres_views import differences, raw_location
from helpers.producing import Producer, eventually
from services import shop_postgres
from services.account import free_port
from services.debezium import DebeziumServer
from services.postgres import Postgres

pytestmark = pytest.mark.slow

PASSWORD = "s3cret"
SECRETS = {
    "CDC_VIEWS_HTTP_USER": "dbz",
    "CDC_VIEWS_HTTP_PASSWORD": PASSWORD,
    "CDC_VIEWS_HTTP_SECRET": "a secret of the tests, long enough",
}
STARTS_WITHIN = float(os.environ.get("CDC_VIEWS_DEBEZIUM_SECONDS", "240"))


class Plain(Workload):
    """Without 24:00:00, which Debezium tells as 00:00:00, and changes of a key beside a large value, which it leaves out."""

    def _types(self, pick: float) -> tuple[str, dict[str, Any]]:
        return super()._types(0.95 if 0.75 <= pick < 0.9 else pick)

    def _makers(self) -> dict[str, Any]:
        return {**super()._makers(), "tm": lambda: self.random.choice(("12:34:56.789", "00:00:00.000001", "00:00:01"))}


@pytest.fixture
def receiver(postgres: Postgres, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    """A receiver of the tables of 27 types, started, always on the same port."""
    postgres.sql(DDL + STORAGE)
    project(tmp_path)
    made = Producer(tmp_path, SECRETS, ["http", "--port", str(free_port())])
    made.start().wait_until_said("listening on")
    yield made
    if made.is_alive:
        made.kill()


@pytest.fixture
def debezium(receiver: Producer, postgres: Postgres, tmp_path: Path) -> Iterator[DebeziumServer]:
    """A Debezium Server, not started."""
    address = f"http://127.0.0.1:{receiver.arguments[-1]}/"
    jwt = "debezium.sink.http.authentication.jwt."
    source = "debezium.source."
    settings = {
        "debezium.sink.type": "http", "debezium.sink.http.url": f"{address}events", "debezium.sink.http.retries": "1000",
        "debezium.sink.http.authentication.type": "jwt",
        f"{jwt}url": address, f"{jwt}username": "dbz", f"{jwt}password": PASSWORD,
        f"{jwt}token_expiration": "1", f"{jwt}refresh_token_expiration": "600",
        f"{source}connector.class": "io.debezium.connector.postgresql.PostgresConnector", f"{source}plugin.name": "pgoutput",
        f"{source}slot.name": "dbz", f"{source}publication.name": "dbz", f"{source}publication.autocreate.mode": "filtered",
        f"{source}offset.flush.interval.ms": "1000", f"{source}database.hostname": "127.0.0.1",
        f"{source}database.port": str(postgres.port), f"{source}database.user": "postgres", f"{source}database.password": "x",
        f"{source}database.dbname": "postgres", f"{source}topic.prefix": "lab",
        f"{source}table.include.list": ",".join(TABLES), f"{source}skipped.operations": "none",
        f"{source}provide.transaction.metadata": "true",
        # without a schema beside it an event does not say whether a number is of ms or µs, nor how many digits it had
        f"{source}time.precision.mode": "isostring",
        f"{source}decimal.handling.mode": "string",
        "debezium.format.value": "json", "debezium.format.key": "json",
        "debezium.format.value.schemas.enable": "false", "debezium.format.key.schemas.enable": "false",
        "quarkus.http.port": str(free_port()), "quarkus.http.host": "127.0.0.1", "quarkus.log.console.json": "false",
    }  # fmt: skip
    (tmp_path / "debezium").mkdir()
    made = DebeziumServer(tmp_path / "debezium", settings)
    yield made
    made.stop()


def wait_until_equal(postgres: Postgres, run: CommandLine, debezium: DebeziumServer) -> None:
    """Until the views are the source's rows; the server still runs."""
    found: list[str] = []

    def are_equal() -> bool:
        assert debezium.running is not None
        assert debezium.running.poll() is None, debezium.log.read_text()[-3000:]
        if not all(Path(raw_location(table)).exists() for table in TABLES):
            return False
        found[:] = differences(postgres, run)
        return not found

    eventually(are_equal, within=STARTS_WITHIN, every=2.0, what=found)


def test_a_real_debezium_server_loses_nothing(
    debezium: DebeziumServer, receiver: Producer, postgres: Postgres, run: CommandLine
) -> None:
    workload = Plain(postgres, seed=5)
    workload.run(40)
    wrong = {"debezium__sink__http__authentication__jwt__password": "wr0ng"}
    debezium.start(**wrong)
    assert debezium.running is not None
    eventually(
        lambda: "sign-in from 127.0.0.1 failed" in receiver.log.read_text(), within=STARTS_WITHIN, what=debezium.log.read_text
    )
    debezium.stop()
    assert "wr0ng" not in receiver.log.read_text()
    assert not any(Path(raw_location(table)).exists() for table in TABLES)

    debezium.start()
    wait_until_equal(postgres, run, debezium)
    first = time.monotonic()
    with workload.running(pause=0.3):
        time.sleep(3)
        receiver.kill()
        time.sleep(2)
        receiver.start().wait_until_said("listening on")
        time.sleep(3)
    wait_until_equal(postgres, run, debezium)
    # the token of a minute is refreshed, or asked for again, before the next events are taken
    time.sleep(max(0.0, 65 - (time.monotonic() - first)))
    workload.run(10)
    wait_until_equal(postgres, run, debezium)
    assert receiver.stop() == 0


def told(file: Path) -> list[tuple[Any, ...]]:
    """What its events say, without positions and times."""
    events = map(json.loads, file.read_text("utf-8").splitlines())
    return [(event["op"], event["before"], event["after"], sorted(event["source"])) for event in events]


def test_the_events_of_the_example_are_what_a_real_debezium_posts(tmp_path: Path) -> None:
    shop_postgres.capture(tmp_path)
    for name in ("customers.jsonl", "orders.jsonl"):
        assert told(tmp_path / name) == told(shop_postgres.SCHEMA.parent / name)
