"""Orders in MariaDB: an order and its lines in one transaction, carts, changes of keys and texts, all of a customer's at once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from cdc_producers.binlog.connections import Access, connect, rows, server_errors
from cdc_producers.mariadb.server import MARIADB

from cdc_views.errors import UsageError
from workloads.orders import Order, Orders

DDL = """\
CREATE TABLE IF NOT EXISTS shop.orders (
  customer varchar(20) NOT NULL,
  number int NOT NULL,
  status varchar(10) NOT NULL,
  total decimal(10,2),
  sent_to text,
  note text,
  is_gift tinyint(1) NOT NULL DEFAULT 0,
  changed_at datetime(3) NOT NULL DEFAULT current_timestamp(3),
  PRIMARY KEY (customer, number)
);
CREATE TABLE IF NOT EXISTS shop.order_lines (
  customer varchar(20) NOT NULL,
  number int NOT NULL,
  item varchar(20) NOT NULL,
  pieces int NOT NULL,
  PRIMARY KEY (customer, number, item)
);
CREATE TABLE IF NOT EXISTS shop.carts (
  customer varchar(20) NOT NULL,
  item varchar(20) NOT NULL,
  pieces int NOT NULL,
  PRIMARY KEY (customer, item)
);
"""
_PASSWORD = "CDC_VIEWS_MARIADB_PASSWORD"
_LINE = "INSERT INTO shop.order_lines (customer, number, item, pieces) VALUES (%s, %s, %s, %s)"
_PIECES = " ON DUPLICATE KEY UPDATE pieces = VALUES(pieces)"
_OF_ORDER = "WHERE customer = %s AND number = %s"
Statement = tuple[str, tuple[object, ...]]


class MariaDbOrders(Orders):
    """See `Orders`; lines are a table of their own."""

    def __init__(self, access: Access, chance: random.Random) -> None:
        """Keep the address; connect later."""
        super().__init__(chance)
        self._access = access
        self._connection: Any = None

    def prepare(self) -> None:
        """See `Workload.prepare`."""
        for statement in ("CREATE DATABASE IF NOT EXISTS shop", *DDL.split(";\n")):
            if statement.strip():
                self._run((statement, ()))
        found = rows(self._connection, "SELECT customer, number FROM shop.orders", doing="reading the orders")
        self.take_note((str(customer), int(number)) for customer, number in found)

    @property
    def changes(self) -> Sequence[Callable[[], str]]:
        """See `Orders.changes`."""
        return self._pay, self._change, self._take_out, self._cart, self._move, self._ship, self._note

    def insert(self, order: Order, lines: Mapping[str, int]) -> None:
        """See `Orders.insert`."""
        values = (*order, self.total(), self.chance.randrange(2))
        made = ("INSERT INTO shop.orders (customer, number, status, total, is_gift) VALUES (%s, %s, 'new', %s, %s)", values)
        self._run(made, *((_LINE, (*order, item, pieces)) for item, pieces in lines.items()))

    def _pay(self) -> str:
        return self._update("status = 'paid', total = %s", self.total())

    def _ship(self) -> str:
        return self._update("status = 'sent', sent_to = %s", ", ".join(self.place()))

    def _note(self) -> str:
        return self._update("note = %s", self.chance.choice((None, "", "ring twice", "n" * 3000 + str(self.chance.random()))))

    def _change(self) -> str:
        values = (*self.chance.choice(self.orders), self.item(), self.chance.randrange(1, 9))
        self._run((_LINE + _PIECES, values))
        return "update"

    def _take_out(self) -> str:
        order, item = self.chance.choice(self.orders), self.item()
        self._run(
            (f"DELETE FROM shop.order_lines {_OF_ORDER} AND item = %s", (*order, item)),
            (f"UPDATE shop.orders SET note = %s, changed_at = current_timestamp(3) {_OF_ORDER}", (f"no {item}", *order)),
        )
        return "update"

    def _cart(self) -> str:
        customer, _ = self.chance.choice(self.orders)
        text = f"INSERT INTO shop.carts (customer, item, pieces) VALUES (%s, %s, %s){_PIECES}"
        self._run((text, (customer, self.item(), self.chance.randrange(1, 5))))
        return "insert"

    def _move(self) -> str:
        """An order becomes another customer's: its key changes, and its lines' keys."""
        order, to = self.chance.choice(self.orders), f"c{self.chance.randrange(99)}"
        _, number = order
        tables = ("orders", "order_lines")
        self._run(*((f"UPDATE shop.{table} SET customer = %s {_OF_ORDER}", (to, *order)) for table in tables))
        self.orders[self.orders.index(order)] = (to, number)
        return "update"

    def delete(self, order: Order) -> None:
        """See `Orders.delete`."""
        self._run(*((f"DELETE FROM shop.{table} {_OF_ORDER}", order) for table in ("order_lines", "orders")))

    def delete_up_to(self, order: Order) -> None:
        """See `Orders.delete_up_to`."""
        up_to = "WHERE customer = %s AND number <= %s"
        self._run(
            *((f"DELETE FROM shop.{table} {up_to}", order) for table in ("order_lines", "orders")),
            ("DELETE FROM shop.carts WHERE customer = %s", order[:1]),
        )

    def _update(self, change: str, *values: object) -> str:
        text = f"UPDATE shop.orders SET {change}, changed_at = current_timestamp(3) {_OF_ORDER}"
        self._run((text, (*values, *self.chance.choice(self.orders))))
        return "update"

    def _run(self, *statements: Statement) -> None:
        """Run statements, several as one transaction."""
        try:
            if self._connection is None:
                self._connection = connect(self._access)
            with server_errors(MARIADB, "making a change"), self._connection.cursor() as cursor:
                if len(statements) > 1:
                    cursor.execute("START TRANSACTION")
                for text, values in statements:
                    cursor.execute(text, values or None)
                if len(statements) > 1:
                    cursor.execute("COMMIT")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """See `Workload.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except pymysql.MySQLError:
                return


def open_workload(address: str, chance: random.Random) -> MariaDbOrders:
    """Return the workload; `address` is mariadb://USER@HOST:PORT, an empty one what the producer's variables say.

    The password is that of CDC_VIEWS_MARIADB_PASSWORD, or the URL's.
    """
    if not address:
        return MariaDbOrders(Access.of_environment(MARIADB), chance)
    try:
        url = urlsplit(address)
        host, port = url.hostname, url.port or 3306
    except ValueError:
        host, url, port = None, urlsplit(""), 0
    if url.scheme not in ("mariadb", "mysql") or not host or url.path not in ("", "/"):
        # the URL may hold a password, so it is not shown
        raise UsageError(f"--mariadb is no such URL; mariadb://USER@HOST:PORT was expected, the password in {_PASSWORD}")
    password = url.password if url.password is not None else os.environ.get(_PASSWORD, "")
    return MariaDbOrders(Access(MARIADB, ((host, port),), unquote(url.username or "root"), unquote(password)), chance)
