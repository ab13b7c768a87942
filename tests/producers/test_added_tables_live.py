"""A table that the user adds while a producer runs: its rows from before, and every change, show; the other table has no gap."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.command_line import CommandLine
from helpers.producing import Producer, eventually, repeating
from services.mariadb import MariaDb
from services.postgres import Postgres

from cdc_views.api import Project

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster
    from services.mysql import MySql

pytestmark = pytest.mark.live

REPLACING = " ON DUPLICATE KEY UPDATE v = VALUES(v)"
OLD, NEW, WRONG = "first", "second", "third"


def write_project(space: str, names: Sequence[str], *, suffix: str = "sql") -> None:
    """Write a project of tables (a, v) with the key a, at once."""
    ddl = "".join(f"CREATE TABLE {space}.{name} (a int PRIMARY KEY, v int);\n" for name in (OLD, NEW, WRONG))
    Path(f"schema.{suffix}").write_text(ddl)
    raw_format = "debezium" if suffix == "sql" else "cassandra-mutation"
    entries = [{"name": f"{space}.{name}", "schema": f"schema.{suffix}", "raw": {"format": raw_format}} for name in names]
    Path("draft.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": entries}))
    os.replace("draft.yml", "cdc_views.yml")


def shown(name: str) -> set[tuple[int, int | None]]:
    """The rows of a table's view; none if nothing has landed."""
    try:
        return {(row["a"], row["v"]) for row in Project.load().table(name).query().rows()}
    except Exception:
        return set()


def proven(
    producer: Producer,
    space: str,
    execute: Callable[[str], Any],
    *,
    replacing: str = "",
    suffix: str = "sql",
    extra: str = "",
    is_whole: bool = False,
) -> None:
    """Add a table with rows, and one that the source lacks, while both are written; the views then have what was written."""
    written: dict[str, dict[int, int]] = {OLD: {}, NEW: {}}
    tables, numbers = [OLD], count()

    def write() -> None:
        number = next(numbers)
        for name in tables:
            key = number % 7 if number % 3 else number + 10
            execute(f"INSERT INTO {space}.{name} (a, v) VALUES ({key}, {number}){replacing}")
            written[name][key] = number

    execute(f"CREATE TABLE {space}.{OLD} (a int PRIMARY KEY, v int){extra}")
    write_project(space, [OLD], suffix=suffix)
    producer.start()
    producer.wait_until_said("following", within=120)
    with repeating(write, pause=0.02):
        eventually(lambda: len(written[OLD]) > 20)
        execute(f"CREATE TABLE {space}.{NEW} (a int PRIMARY KEY, v int){extra}")
        for key in range(1000, 1050):
            execute(f"INSERT INTO {space}.{NEW} (a, v) VALUES ({key}, 0)")
            written[NEW][key] = 0
        tables.append(NEW)
        write_project(space, [OLD, NEW], suffix=suffix)
        producer.wait_until_said(f"{space}.{NEW}: added to", within=30)
        eventually(lambda: len(shown(f"{space}.{NEW}")) > 50, within=120, every=0.5, what=producer.log.read_text())
        if is_whole:  # one that the source lacks does not end the others
            write_project(space, [OLD, NEW, WRONG], suffix=suffix)
            producer.wait_until_said(f"{space}.{WRONG}: cannot be added", within=60)
        so_far = len(written[OLD])
        eventually(lambda: len(written[OLD]) > so_far + 20)
    for name, rows in written.items():
        wanted = set(rows.items())
        eventually(
            lambda name=name, wanted=wanted: shown(f"{space}.{name}") == wanted, within=60, every=0.5,
            what=(name, producer.log.read_text()[-3000:]),
        )  # fmt: skip
    assert producer.is_alive
    assert producer.stop() == 0


@contextmanager
def one(producer: Producer) -> Iterator[Producer]:
    """The producer, which ends with the test."""
    try:
        yield producer
    finally:
        if producer.is_alive:
            producer.kill()


def test_postgres(postgres: Postgres, run: CommandLine, tmp_path: Path) -> None:
    with one(Producer(tmp_path, postgres.environment, ["postgres", "--confirm", "0.5"])) as producer:
        proven(producer, "public", postgres.sql, replacing=" ON CONFLICT (a) DO UPDATE SET v = excluded.v", is_whole=True)


def test_mariadb(mariadb: MariaDb, run: CommandLine, tmp_path: Path) -> None:
    with one(Producer(tmp_path, mariadb.environment, ["mariadb"])) as producer:
        proven(producer, "shop", mariadb.sql, replacing=REPLACING, is_whole=True)


def test_mysql(mysql: MySql, run: CommandLine, tmp_path: Path) -> None:
    with one(Producer(tmp_path, mysql.environment, ["mysql"])) as producer:
        proven(producer, "shop", mysql.sql, replacing=REPLACING)


def test_cassandra(cassandra_node: CassandraCluster, run: CommandLine, tmp_path: Path) -> None:
    session, node, space = cassandra_node.session(), cassandra_node.nodes[0], "added"
    session.execute(f"CREATE KEYSPACE {space} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    with one(Producer(tmp_path, {}, ["cassandra", *where, "--snapshot-consistency", "ALL"])) as agent:
        proven(agent, space, session.execute, suffix="cql", extra=" WITH cdc = true")
    session.execute(f"DROP KEYSPACE {space}")
