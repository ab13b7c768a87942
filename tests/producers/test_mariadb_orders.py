"""The orders workload, on a real MariaDB, through the producer: the view is what the server shows."""

from __future__ import annotations

import json
import random
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pymysql")

from helpers.command_line import CommandLine
from helpers.comparing import only_one_has
from helpers.mariadb_views import wait_until_landed
from helpers.producing import Producer
from workloads import WorkloadOrder, ddl_of, run_workload
from workloads.orders_mariadb import open_workload

from cdc_views.errors import TransientError, UsageError

if TYPE_CHECKING:
    from services.mariadb import MariaDb

_COLUMNS = {
    "orders": ("customer", "number", "status", "total", "sent_to", "note", "is_gift", "changed_at"),
    "order_lines": ("customer", "number", "item", "pieces"),
    "carts": ("customer", "item", "pieces"),
}
_FORMS = {"changed_at": "date_format(changed_at, '%Y-%m-%d %H:%i:%s.%f')"}
TABLES = tuple(f"shop.{name}" for name in _COLUMNS)


def differences(server: MariaDb, run: CommandLine) -> list[str]:
    """The rows that only one of server and view has."""
    found = []
    for name, columns in _COLUMNS.items():
        rows = server.sql(f"SELECT {', '.join(_FORMS.get(column, column) for column in columns)} FROM shop.{name}")
        source = [repr([str(value) for value in row]) for row in rows]
        view = [repr([_told(column, row[column]) for column in columns]) for row in run.query(f"shop.{name}")]
        found += only_one_has(name, source, view)
    return found


def _told(column: str, value: object) -> str:
    """`query` cuts zeros behind the second."""
    head, _, tail = str(value).partition(".")
    return f"{head}.{tail.ljust(6, '0')}" if column == "changed_at" else str(value)


@pytest.mark.slow
def test_orders_are_shown_as_the_server_shows_them(mariadb: MariaDb, run: CommandLine, tmp_path: Path) -> None:
    order = WorkloadOrder("orders", "mariadb", f"mariadb://root@127.0.0.1:{mariadb.port}", seed=5, every=0, events=250)
    made = run_workload(order, Event())
    assert min(made[kind] for kind in ("insert", "update", "delete")) > 5
    (tmp_path / "schema.sql").write_text(ddl_of("orders", "mariadb"))
    tables = [{"name": name, "schema": "schema.sql", "raw": {"format": "debezium"}} for name in TABLES]
    (tmp_path / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
    producer = Producer(tmp_path, mariadb.environment, ["mariadb"]).start()
    try:
        producer.wait_until_said("following the binlog")
        assert sum(run_workload(order, Event()).values()) == 250, "it goes on with the rows that are there"
        wait_until_landed(mariadb, *TABLES)
        assert len(mariadb.sql("SELECT * FROM shop.order_lines")) > 30
        assert differences(mariadb, run) == []
        mariadb.sql("UPDATE shop.carts SET pieces = 99 LIMIT 1")
        wait_until_landed(mariadb, *TABLES)
        assert producer.stop() == 0
        mariadb.sql("DELETE FROM shop.order_lines LIMIT 1")
        assert len(differences(mariadb, run)) == 1, "a comparison that cannot fail shows nothing"
    finally:
        if producer.is_alive:
            producer.kill()


@pytest.mark.heavy
def test_the_same_seed_makes_the_same_orders(mariadb: MariaDb) -> None:
    rows = []
    for _ in range(2):
        mariadb.sql("DROP DATABASE shop")
        run_workload(WorkloadOrder("orders", "mariadb", f"mariadb://root@127.0.0.1:{mariadb.port}", every=0, events=120), Event())
        text = "SELECT o.customer, o.number, status, total, note, item, pieces FROM shop.orders o LEFT JOIN shop.order_lines l "
        rows.append(mariadb.sql(text + "USING (customer, number) ORDER BY 1, 2, 6"))
    assert rows[0] == rows[1] != []


def test_a_server_that_is_away_may_come_back() -> None:
    with pytest.raises(TransientError, match="MariaDB is away"):
        open_workload("mariadb://root@127.0.0.1:1", random.Random(1)).prepare()


@pytest.mark.parametrize("address", ["127.0.0.1:3306", "mariadb://", "mariadb://u:s3cret@h:port", "http://u:s3cret@h"])
def test_an_address_that_is_none_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(UsageError, match="mariadb://USER@HOST:PORT") as told:
        open_workload(address, random.Random(1))
    assert "s3cret" not in str(told.value)
