"""Orders in Cassandra: customers order, change what they ordered, pay, cancel; carts expire, batches and LWT now and then."""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from cassandra import DriverException, InvalidRequest
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.connection import ConnectionException

from cdc_views.errors import TransientError, UsageError

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
_CUSTOMERS, _KEPT = 20, 300
_ITEMS = ("apple", "bread", "cheese", "dates ☃", "eggs", "flour")
_CART_SECONDS = 900


class Orders:
    """See `cdc_producers.generator.workload.Workload`."""

    def __init__(self, hosts: list[str], port: int, chance: random.Random) -> None:
        """Keep the address; connect later."""
        self._hosts, self._port, self._chance = hosts, port, chance
        self._cluster: Cluster | None = None
        self._session: Any = None
        self._orders: deque[tuple[str, int]] = deque()
        self._next = 1

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
        there = [(customer, number) for customer, number in found if number is not None]
        self._orders = deque(sorted(there, key=lambda order: order[1])[-_KEPT:])
        self._next = max((number for _, number in self._orders), default=0) + 1

    def step(self) -> str:
        """See `Workload.step`."""
        pick = self._chance.random()
        if len(self._orders) < 3 or pick < 0.3:
            return self._order()
        if pick < 0.85 and len(self._orders) < _KEPT:
            makers: tuple[Callable[[], str], ...] = (
                self._pay,
                self._change,
                self._take_out,
                self._cart,
                self._rename,
                self._ship,
            )
            return self._chance.choice(makers)()
        return self._delete()

    def _order(self) -> str:
        customer, number = f"c{self._chance.randrange(_CUSTOMERS)}", self._next
        lines = {self._item(): self._chance.randrange(1, 9) for _ in range(self._chance.randrange(1, 4))}
        self._run(
            "INSERT INTO shop.orders (customer, number, status, total, lines, tags, changed_at) "
            "VALUES (%s, %s, 'new', %s, %s, {'web'}, toTimestamp(now()))"
            + (" IF NOT EXISTS" if self._chance.random() < 0.1 else ""),
            (customer, number, self._total(), lines),
        )
        self._next += 1
        self._orders.append((customer, number))
        return "insert"

    def _pay(self) -> str:
        return self._update("status = 'paid', tags = tags + {'paid'}, total = %s", self._total())

    def _change(self) -> str:
        return self._update("lines[%s] = %s, changed_at = toTimestamp(now())", self._item(), self._chance.randrange(1, 9))

    def _take_out(self) -> str:
        return self._update("lines = lines - {%s}, notes = notes + [%s]", item := self._item(), f"no {item}")

    def _ship(self) -> str:
        place = f"{self._chance.randrange(99)} Main St", str(self._chance.randrange(10_000, 99_999))
        return self._update("sent_to = {street: %s, zip: %s}, status = 'sent'", *place)

    def _cart(self) -> str:
        """A cart's item is gone after a quarter of an hour, and with the order."""
        customer, _ = self._chance.choice(self._orders)
        text = f"INSERT INTO shop.carts (customer, item, pieces) VALUES (%s, %s, %s) USING TTL {_CART_SECONDS}"
        self._run(text, (customer, self._item(), self._chance.randrange(1, 5)))
        return "insert"

    def _rename(self) -> str:
        customer, _ = self._chance.choice(self._orders)
        self._run("UPDATE shop.orders SET name = %s WHERE customer = %s", (f"{customer.upper()} {self._next}", customer))
        return "update"

    def _delete(self) -> str:
        """One order; now and then all of a customer's up to it, and the cart."""
        customer, number = order = self._chance.choice(self._orders)
        if self._chance.random() < 0.2:
            self._run(
                "BEGIN BATCH DELETE FROM shop.orders WHERE customer = %s AND number <= %s; "
                "DELETE FROM shop.carts WHERE customer = %s; APPLY BATCH",
                (customer, number, customer),
            )
            self._orders = deque(kept for kept in self._orders if kept[0] != customer or kept[1] > number)
        else:
            self._run("DELETE FROM shop.orders WHERE customer = %s AND number = %s", order)
            self._orders.remove(order)
        return "delete"

    def _update(self, change: str, *values: object) -> str:
        customer, number = self._chance.choice(self._orders)
        self._run(f"UPDATE shop.orders SET {change} WHERE customer = %s AND number = %s", (*values, customer, number))
        return "update"

    def _item(self) -> str:
        return self._chance.choice(_ITEMS)

    def _total(self) -> Any:
        from decimal import Decimal

        return Decimal(self._chance.randrange(100, 100_000)).scaleb(-2)

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


def open_workload(address: str, chance: random.Random) -> Orders:
    """Return the workload; `address` is host:port, or several hosts before one port, an empty one 127.0.0.1:9042."""
    hosts, _, port = (address or "127.0.0.1:9042").rpartition(":")
    if not hosts or not port.isdecimal():
        raise UsageError("--cassandra: HOST:PORT or HOST,HOST:PORT was expected, as 127.0.0.1:9042")
    return Orders([host.strip() for host in hosts.split(",")], int(port), chance)


__all__ = ["DDL", "Orders", "open_workload"]
