"""The orders workload, on a real Cassandra node, through the agent: the view is what the node shows."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from helpers.cassandra_views import differences, source_rows, view_rows
from helpers.command_line import CommandLine
from helpers.producing import Producer, eventually
from workloads import WorkloadOrder, ddl_of, run_workload
from workloads.orders_cassandra import open_workload

from cdc_views.errors import TransientError, UsageError

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster


@pytest.mark.live
def test_orders_are_shown_as_the_node_shows_them(cassandra_node: CassandraCluster, run: CommandLine, tmp_path: Path) -> None:
    node = cassandra_node.nodes[0]
    cassandra_node.session().execute("DROP KEYSPACE IF EXISTS shop")  # other tests of the node have other tables of these names
    order = WorkloadOrder("orders", "cassandra", f"{node.address}:{node.port}", seed=5, every=0, events=150)
    made = run_workload(order, Event())
    assert min(made[kind] for kind in ("insert", "update", "delete")) > 5
    Path("schema.cql").write_text(ddl_of("orders", "cassandra"))
    tables = [
        {"name": f"shop.{name}", "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}} for name in ("orders", "carts")
    ]
    Path("cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
    where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    agent = Producer(tmp_path, {}, ["cassandra", *where]).start()
    try:
        agent.wait_until_said("following", within=120)
        assert sum(run_workload(order, Event()).values()) == 150, "it goes on with the rows that are there"
        session = cassandra_node.session()
        last = int(time.time())
        session.execute(f"INSERT INTO shop.carts (customer, item, pieces) VALUES ('mark', '{last}', 1)")
        session.execute(f"INSERT INTO shop.orders (customer, number) VALUES ('mark', {last})")
        for table in ("orders", "carts"):
            eventually(lambda table=table: any("mark" in row for row in view_rows(run, "shop", table)), within=60, what=table)
        assert source_rows(session, "shop", "orders").total() > 20
        assert differences(session, run, "shop", tables=("orders", "carts")) == []
        assert agent.stop() == 0
    finally:
        if agent.is_alive:
            agent.kill()


def test_a_node_that_is_away_may_come_back() -> None:
    workload = open_workload("127.0.0.1:1", random.Random(1))
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:1: "):
        workload.prepare()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:cql", ":9042"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        open_workload(address, random.Random(1))
