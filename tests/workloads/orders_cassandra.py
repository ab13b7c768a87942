"""Orders in Cassandra: customers order, change what they ordered, pay, cancel; carts expire, batches and LWT now and then."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cassandra import DriverException, InvalidRequest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.connection import ConnectionException

from cdc_views.errors import TransientError, UsageError
from workloads.orders import Order, Orders

DDL = """\
CREATE TYPE IF NOT EXISTS shop.address (street text, city text, zip text);
CREATE TABLE IF NOT EXISTS shop.orders (
  customer text,
  number int,
  name text static,
  sent_to address,
  status text,
  total decimal,
  lines map<text, int>,
  tags set<text>,
  notes list<text>,
  changed_at timestamp,
  PRIMARY KEY (customer, number)
) WITH CLUSTERING ORDER BY (number DESC) AND cdc = true;
CREATE TABLE IF NOT EXISTS shop.carts (
  customer text,
  item text,
  pieces int,
  PRIMARY KEY (customer, item)
) WITH cdc = true;
"""
_KEYSPACE = "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}"
_CART_SECONDS = 900


class CassandraOrders(Orders):
    """See `Orders`; an order is a row, its lines a map."""

    def __init__(self, hosts: list[str], port: int, chance: random.Random) -> None:
        """Keep the address; connect later."""
        super().__init__(chance)
        self._hosts, self._port = hosts, port
        self._cluster: Cluster | None = None
        self._session: Any = None

    def prepare(self) -> None:
        """See `Workload.prepare`."""
        self._run("SELECT release_version FROM system.local")
        nodes = len(self._session.cluster.metadata.all_hosts())
        self._run(_KEYSPACE % min(3, nodes))
        for statement in DDL.split(";\n"):
            if statement.strip():
                self._run(statement)
        found = self._run("SELECT customer, number FROM shop.orders")
        # a customer with only a name (static) and no order comes with a null number
        self.take_note((customer, number) for customer, number in found if number is not None)

    @property
    def changes(self) -> Sequence[Callable[[], str]]:
        """See `Orders.changes`."""
        return self._pay, self._change, self._take_out, self._cart, self._rename, self._ship

    def insert(self, order: Order, lines: Mapping[str, int]) -> None:
        """See `Orders.insert`."""
        self._run(
            "INSERT INTO shop.orders (customer, number, status, total, lines, tags, changed_at) "
            "VALUES (%s, %s, 'new', %s, %s, {'web'}, toTimestamp(now()))"
            + (" IF NOT EXISTS" if self.chance.random() < 0.1 else ""),
            (*order, self.total(), lines),
        )

    def _pay(self) -> str:
        return self._update("status = 'paid', tags = tags + {'paid'}, total = %s", self.total())

    def _change(self) -> str:
        return self._update("lines[%s] = %s, changed_at = toTimestamp(now())", self.item(), self.chance.randrange(1, 9))

    def _take_out(self) -> str:
        return self._update("lines = lines - {%s}, notes = notes + [%s]", item := self.item(), f"no {item}")

    def _ship(self) -> str:
        return self._update("sent_to = {street: %s, zip: %s}, status = 'sent'", *self.place())

    def _cart(self) -> str:
        """A cart's item is gone after a quarter of an hour, and with the order."""
        customer, _ = self.chance.choice(self.orders)
        text = f"INSERT INTO shop.carts (customer, item, pieces) VALUES (%s, %s, %s) USING TTL {_CART_SECONDS}"
        self._run(text, (customer, self.item(), self.chance.randrange(1, 5)))
        return "insert"

    def _rename(self) -> str:
        customer, number = self.chance.choice(self.orders)
        self._run("UPDATE shop.orders SET name = %s WHERE customer = %s", (f"{customer.upper()} {number}", customer))
        return "update"

    def delete(self, order: Order) -> None:
        """See `Orders.delete`."""
        self._run("DELETE FROM shop.orders WHERE customer = %s AND number = %s", order)

    def delete_up_to(self, order: Order) -> None:
        """See `Orders.delete_up_to`."""
        self._run(
            "BEGIN BATCH DELETE FROM shop.orders WHERE customer = %s AND number <= %s; "
            "DELETE FROM shop.carts WHERE customer = %s; APPLY BATCH",
            (*order, order[0]),
        )

    def _update(self, change: str, *values: object) -> str:
        text = f"UPDATE shop.orders SET {change} WHERE customer = %s AND number = %s"
        self._run(text, (*values, *self.chance.choice(self.orders)))
        return "update"

    def _run(self, text: str, values: tuple[object, ...] | None = None) -> list[Any]:
        try:
            return list((self._session or self._connect()).execute(text, values))
        except InvalidRequest as error:
            raise UsageError(f"{text.split(' (')[0]}: {error}; is shop's schema another one?") from error
        except (NoHostAvailable, DriverException, ConnectionException, OSError) as error:
            place = f"{', '.join(self._hosts)}:{self._port}"
            raise TransientError(f"{place}: a change was not made, or nobody knows: {type(error).__name__}") from error

    def _connect(self) -> Any:
        self.close()
        user = os.environ.get("CDC_VIEWS_CASSANDRA_USER")
        password = os.environ.get("CDC_VIEWS_CASSANDRA_PASSWORD", "")
        account = PlainTextAuthProvider(user, password) if user else None
        self._cluster = Cluster(self._hosts, port=self._port, auth_provider=account, connect_timeout=10)
        self._session = self._cluster.connect()
        return self._session

    def close(self) -> None:
        """See `Workload.close`."""
        cluster, self._cluster, self._session = self._cluster, None, None
        if cluster is not None:
            cluster.shutdown()


def open_workload(address: str, chance: random.Random) -> CassandraOrders:
    """Return the workload; `address` is host:port, or several hosts before one port, an empty one 127.0.0.1:9042."""
    hosts, _, port = (address or "127.0.0.1:9042").rpartition(":")
    if not hosts or not port.isdecimal():
        raise UsageError("--cassandra: HOST:PORT or HOST,HOST:PORT was expected, as 127.0.0.1:9042")
    return CassandraOrders([host.strip() for host in hosts.split(",")], int(port), chance)
