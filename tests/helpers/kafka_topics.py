"""Topics that hold what applications and connectors write, and the rows that they amount to."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from deltalake import DeltaTable
from services.kafka import Kafka

from helpers.command_line import CommandLine
from helpers.producing import repeating

ORDERS, USERS, CARTS = "shop.orders", "shop.users", "shop.carts"
TOPICS = {ORDERS: "lab.shop.orders", USERS: "users", CARTS: "carts.v2"}
GROUP = "cdc_views_shop"
_SQL = """
CREATE TABLE shop.orders (id bigint PRIMARY KEY, state text, amount numeric(12,2), at timestamp(6));
CREATE TABLE shop.users (id text PRIMARY KEY, name text, age int);
"""
_CQL = "CREATE TABLE shop.carts (id int, line int, state text, PRIMARY KEY (id, line));\n"
Row = dict[str, Any]
Place = tuple[int, int]
"""Partition and offset."""


def project(folder: Path) -> None:
    """Write a project of three tables, one of each kind of topic."""
    (folder / "shop.sql").write_text(_SQL)
    (folder / "shop.cql").write_text(_CQL)
    tables = [
        {"name": ORDERS, "schema": "shop.sql", "raw": {"format": "debezium"}},
        {"name": USERS, "schema": "shop.sql", "raw": {"format": "key-value", "topics": ["users"]}},
        {"name": CARTS, "schema": "shop.cql", "raw": {"format": "cassandra-mutation", "topics": ["carts.v2"]}},
    ]
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))


def create(broker: Kafka, *, partitions: int = 2, orders: str = TOPICS[ORDERS]) -> None:
    """Make the topics; that of keys and values compacts all the time."""
    broker.create(orders, partitions=partitions)
    compaction = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    broker.create(TOPICS[USERS], partitions=partitions, max_compaction_lag_ms="100", **compaction)
    broker.create(TOPICS[CARTS], partitions=partitions)


@dataclass
class Writer:
    """Writes random events of rows that it remembers."""

    broker: Kafka
    seed: int
    partitions: int = 2
    events: int = 0
    rows: dict[str, dict[Any, Row]] = field(default_factory=lambda: {ORDERS: {}, USERS: {}, CARTS: {}})

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def write(self, count: int) -> None:
        """Write so many events, each into its key's partition, and have them acknowledged."""
        for _ in range(count):
            self.events += 1
            table = self.random.choice((ORDERS, ORDERS, USERS, CARTS))
            for key, message in {ORDERS: self._order, USERS: self._user, CARTS: self._cart}[table]():
                self.broker.produce(TOPICS[table], message, partition=crc32(str(key).encode()) % self.partitions)
        self.broker.flush()

    def writing(self, *, pause: float = 0.1) -> AbstractContextManager[None]:
        """Write in a thread of its own; what fails there fails here."""
        return repeating(lambda: self.write(10), pause=pause)

    def _order(self) -> list[tuple[Any, tuple[bytes, bytes | None]]]:
        number = self.random.randrange(60)
        before, after = self.rows[ORDERS].get(number), None
        op = "c" if before is None else self.random.choice("uuud")
        if op != "d":
            after = {
                "id": number,
                "state": self.random.choice(("open", "paid", None, 'a "☃"')),
                "amount": self.random.randrange(-(10**9), 10**9) / 100,
                "at": self.random.randrange(10**15, 2 * 10**15),
            }
        source = {
            "connector": "postgresql", "lsn": 1000 + self.events, "db": "lab", "schema": "shop", "table": "orders", "ts_ms": 1,
        }  # fmt: skip
        key = json.dumps({"id": number}).encode()
        value = json.dumps({"before": None, "after": after, "source": source, "op": op, "ts_ms": 1}).encode()
        if op != "d":
            self.rows[ORDERS][number] = after or {}
            return [(number, (key, value))]
        del self.rows[ORDERS][number]
        value = json.dumps({"before": {"id": number}, "after": None, "source": source, "op": op, "ts_ms": 1}).encode()
        return [(number, (key, value)), (number, (key, None))]

    def _user(self) -> list[tuple[Any, tuple[bytes, bytes | None]]]:
        name = f"u-{self.random.randrange(40)}"
        if name in self.rows[USERS] and self.random.random() < 0.25:
            del self.rows[USERS][name]
            return [(name, (name.encode(), None))]
        row = {"id": name, "name": self.random.choice(("A", "B", None)), "age": self.random.randrange(99)}
        self.rows[USERS][name] = row
        return [(name, (name.encode(), json.dumps(row).encode()))]

    def _cart(self) -> list[tuple[Any, tuple[bytes, bytes | None]]]:
        number, state = self.random.randrange(30), self.random.choice(("open", "sent"))
        self.rows[CARTS][number] = {"id": number, "line": 0, "state": state}
        cells = [{"column": "state", "written": self.events, "value": state}]
        row = {"kind": "row", "clustering": {"line": 0}, "liveness": {"written": self.events}, "cells": cells}
        body = {
            "format": "cassandra-mutation/1", "node": "n1", "segment": 1, "position": self.events, "keyspace": "shop",
            "table": "carts", "partition": {"id": number}, "rows": [row],
        }  # fmt: skip
        return [(number, (str(number).encode(), json.dumps(body).encode()))]


def differences(writer: Writer, run: CommandLine) -> list[str]:
    """The rows that only the writer or only the view has; empty where they are equal."""
    found = []
    for table, rows in writer.rows.items():
        view = {_text(row) for row in run.query(table)}
        wanted = {_text(row if table != ORDERS else _shown(row)) for row in rows.values()}
        found += [f"{table}: only the source has {row}" for row in wanted - view]
        found += [f"{table}: only the view has {row}" for row in view - wanted]
    return found


def _shown(row: Row) -> Row:
    micros = row["at"]
    seconds, rest = divmod(micros, 10**6)
    from datetime import datetime, timezone

    at = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    return {**row, "amount": f"{row['amount']:.2f}", "at": f"{at}.{rest:06d}"}


def _text(row: Row) -> str:
    return repr(sorted((name, None if value is None else str(value)) for name, value in row.items()))


def ends(broker: Kafka, topic: str) -> dict[int, int]:
    """The offset behind each partition's last message."""
    return broker.ends(topic)


def lost_and_twice(found: Iterable[Place], ends: dict[int, int]) -> tuple[int, int]:
    """How many messages of the topic are not there, and how many more there are of those that are."""
    counted = Counter(found)
    wanted = {(partition, offset) for partition, end in ends.items() for offset in range(end)}
    return len(wanted - counted.keys()), sum(counted.values()) - len(counted)


def raw_table(folder: Path) -> DeltaTable | None:
    """The raw table, once it is there."""
    logs = [path for path in folder.rglob("_delta_log") if "__quarantine" not in str(path) and "orders" in str(path)]
    return DeltaTable(logs[0].parent) if logs else None


def places(folder: Path) -> list[Place]:
    """Where each row of the raw table was read."""
    table = raw_table(folder)
    assert table is not None
    origins = table.to_pyarrow_table(columns=["_origin"])["_origin"].to_pylist()
    return [(int(origin["segment"].rpartition("/")[2]), origin["position"]) for origin in origins]
