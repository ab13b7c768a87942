"""Columns with a policy, from real servers: their values are in no file and no log of a producer, its tables and its views."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import Answer, CommandLine
from helpers.comparing import raw_location
from helpers.corrupting import silently
from helpers.producing import Producer, eventually
from helpers.sentinels import HASHED, KEY, LEFT_OUT, MASKED, POLICIES, traces
from services.cassandra import CassandraCluster
from services.mariadb import MariaDb
from services.postgres import Postgres

from cdc_views.api import Project

pytestmark = pytest.mark.live

ROWS = 40


def values(number: int) -> str:
    return f"{number}, '{HASHED}{number}', '{LEFT_OUT}{number}', {MASKED}{number:06}, 'note {number}'"


def write_project(folder: Path, name: str, ddl: str, format: str = "debezium", columns: dict[str, Any] = POLICIES) -> None:
    file = folder / ("schema.cql" if "cassandra" in format else "schema.sql")
    file.write_text(ddl)
    entry = {"name": name, "schema": file.name, "raw": {"format": format}, "columns": columns}
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [entry]}))


def wait_for_note(producer: Producer, name: str, note: str) -> None:
    """Until the newest change shows, as `note` of some row."""

    def shows() -> bool:
        assert producer.is_alive, producer.log.read_text()
        try:
            (table,) = Project.load().tables
            return any(row["note"] == note for row in table.query(columns=["note"]).rows())
        except Exception:  # nothing has landed yet
            return False

    eventually(shows, within=90, what=f"{note} in {name}; {producer.log.read_text()}", every=0.5)


def is_verified(run: CommandLine, name: str, source: str) -> list[Answer]:
    """`verify` finds the view equal to the source, and a value that changed in raw, in what is hashed and what is not."""
    command = ("verify", name, "--source", source, "--sample", "0", "--wait", "2", "--format", "jsonl")
    equal = run(*command)
    assert (equal.code, "email: compared by their hashes" in equal.err, "ssn" in equal.err) == (0, True, True), equal

    def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        mine = [row for row in rows if row["id"] in (10, 11, 12)]
        for row in mine:
            row["email" if row["id"] != 12 else "note"]["value"] = "changed"
        return rows if mine else None

    assert silently(raw_location(name), changed, most=9)
    assert run("rebuild", name, "--accept").code == 0
    lost = run(*command)
    assert {(row["key"]["id"], row["column"]) for row in lost.rows} == {(10, "email"), (11, "email"), (12, "note")}, lost
    return [equal, lost]


def check(producer: Producer, run: CommandLine, folder: Path, name: str, source: str) -> None:
    """Every file of the project, what commands say and what the producer served has no value; rows are there."""
    served = [producer.get("/metrics")[1], producer.get("/healthz")[1]]
    assert producer.stop() == 0
    said = [
        run("query", name, "--format", "jsonl"),
        run("materialize"),
        run("quarantine", "list"),
        run("replay", name),
        run("apply"),
        *is_verified(run, name, source),
    ]
    (folder / "said.txt").write_text("\n".join([*map(str, served), *(answer.out + answer.err for answer in said)]))
    rows = said[0].rows
    assert len(rows) >= ROWS - 1, said[0].err
    assert {row["phone"] for row in rows} == {"***"}
    assert all(len(row["email"]) == 64 and "ssn" not in row for row in rows)
    assert traces(folder) == []


def test_postgres(postgres: Postgres, run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMAIL_KEY", KEY)
    ddl = "CREATE TABLE public.customers (id bigint PRIMARY KEY, email text, ssn text, phone bigint, note text);"
    postgres.sql(ddl + "ALTER TABLE public.customers REPLICA IDENTITY FULL")
    for number in range(ROWS // 2):
        postgres.sql(f"INSERT INTO public.customers VALUES ({values(number)})")
    write_project(tmp_path, "public.customers", ddl)
    producer = Producer(tmp_path, postgres.environment, ["postgres", "--confirm", "0.5"]).start()
    try:
        producer.wait_until_said("following slot")
        for number in range(ROWS // 2, ROWS):
            postgres.sql(f"INSERT INTO public.customers VALUES ({values(number)})")
        postgres.sql(f"UPDATE public.customers SET id = 1000, ssn = '{LEFT_OUT}new' WHERE id = 1")
        postgres.sql("DELETE FROM public.customers WHERE id = 2; ALTER TABLE public.customers ADD COLUMN fresh text")
        postgres.sql(f"UPDATE public.customers SET fresh = 'f', ssn = '{LEFT_OUT}fresh' WHERE id = 3")
        producer.wait_until_said("went to quarantine", within=90)
        postgres.sql("ALTER TABLE public.customers DROP COLUMN fresh; UPDATE public.customers SET note = 'last' WHERE id = 4")
        wait_for_note(producer, "public.customers", "last")
        for variable, value in postgres.environment.items():
            monkeypatch.setenv(variable, value)
        check(producer, run, tmp_path, "public.customers", "postgresql://")
    finally:
        if producer.is_alive:
            producer.kill()


def test_the_search_finds_values_from_postgres_without_policies(
    postgres: Postgres, run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ddl = "CREATE TABLE public.customers (id bigint PRIMARY KEY, email text, ssn text, phone bigint, note text);"
    postgres.sql(ddl + f"INSERT INTO public.customers VALUES ({values(1)})")
    write_project(tmp_path, "public.customers", ddl, columns={})
    producer = Producer(tmp_path, postgres.environment, ["postgres"]).start()
    try:
        wait_for_note(producer, "public.customers", "note 1")
    finally:
        producer.kill()
    assert traces(tmp_path, LEFT_OUT)
    assert traces(tmp_path, HASHED)
    assert traces(tmp_path, MASKED)


def test_mariadb(mariadb: MariaDb, run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMAIL_KEY", KEY)
    ddl = "CREATE TABLE shop.customers (id bigint PRIMARY KEY, email text, ssn text, phone bigint, note text)"
    mariadb.sql(ddl, *(f"INSERT INTO shop.customers VALUES ({values(number)})" for number in range(ROWS // 2)))
    write_project(tmp_path, "shop.customers", f"{ddl};")
    producer = Producer(tmp_path, mariadb.environment, ["mariadb"]).start()
    try:
        producer.wait_until_said("following the binlog")
        mariadb.sql(*(f"INSERT INTO shop.customers VALUES ({values(number)})" for number in range(ROWS // 2, ROWS)))
        mariadb.sql(f"UPDATE shop.customers SET ssn = '{LEFT_OUT}new', note = 'last' WHERE id = 4")
        wait_for_note(producer, "shop.customers", "last")
        for variable, value in mariadb.environment.items():
            monkeypatch.setenv(variable, value)
        check(producer, run, tmp_path, "shop.customers", "mariadb://")
    finally:
        if producer.is_alive:
            producer.kill()


def test_cassandra(cassandra_node: CassandraCluster, run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMAIL_KEY", KEY)
    session, node = cassandra_node.session(), cassandra_node.nodes[0]
    session.execute("CREATE KEYSPACE policies WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    ddl = "CREATE TABLE policies.customers (id bigint PRIMARY KEY, email text, ssn text, phone bigint, note text, tags set<text>)"
    session.execute(f"{ddl} WITH cdc = true")
    insert = "INSERT INTO policies.customers (id, email, ssn, phone, note, tags) VALUES ({}, {{'{}'}})"
    for number in range(ROWS // 2):
        session.execute(insert.format(values(number), f"{LEFT_OUT}{number}"))
    write_project(tmp_path, "policies.customers", f"{ddl};", "cassandra-mutation", {**POLICIES, "tags": {"policy": "leave_out"}})
    where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    producer = Producer(tmp_path, {}, ["cassandra", *where]).start()
    try:
        for number in range(ROWS // 2, ROWS):
            session.execute(insert.format(values(number), f"{LEFT_OUT}{number}"))
        session.execute(f"UPDATE policies.customers SET note = 'last', tags = tags + {{'{LEFT_OUT}new'}} WHERE id = 4")
        wait_for_note(producer, "policies.customers", "last")
        check(producer, run, tmp_path, "policies.customers", f"cassandra://{node.address}:{node.port}")
    finally:
        if producer.is_alive:
            producer.kill()
