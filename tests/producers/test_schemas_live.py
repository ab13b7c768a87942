"""`init --from` a running server and `schema:` at its address give what its dump gives, for tables of every type that is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.command_line import Answer, CommandLine
from services.mariadb import MariaDb
from services.postgres import Postgres

from cdc_views.api import Project
from cdc_views.model.schema import TableSchema

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster
    from services.mysql import MySql

pytestmark = pytest.mark.live

WORD = "zqlive-pw"
"""Part of every password here: no file and no message has it."""


def schemas(project: str) -> dict[str, TableSchema]:
    """The tables of a project, by name."""
    return {table.name: table.source_schema for table in Project.load(project).tables}


def proven(run: CommandLine, address: str, dump: str, *, suffix: str) -> Answer:
    """Assert that a server gives, saved and live, the schemas of its dump; return what `init` said."""
    Path(f"dump.{suffix}").write_text(dump)
    assert run("init", "--from", f"dump.{suffix}", "--dir", "dumped", "--name", "shop").code == 0
    saved = run("init", "--from", address, "--dir", "saved", "--name", "shop")
    assert saved.code == 0, saved.err
    expected = schemas("dumped/cdc_views.yml")
    assert schemas("saved/cdc_views.yml") == expected
    raw_format = "cassandra-mutation" if suffix == "cql" else "debezium"
    tables = [{"name": name, "schema": address, "raw": {"format": raw_format}} for name in expected]
    Path("live.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": tables}))
    assert schemas("live.yml") == expected
    shown = run("doctor", "--project", "live.yml")
    Path("live.yml").unlink()
    assert WORD not in saved.out + saved.err + shown.out + shown.err
    assert [file for file in Path().rglob("*") if file.is_file() and WORD in file.read_text()] == []
    one = run("init", "--from", address, "--dir", "one", "--select", next(iter(expected)))
    assert (one.code, list(schemas("one/cdc_views.yml"))) == (0, [next(iter(expected))]), one.err
    wrong = run("init", "--from", address, "--dir", "wrong", "--select", f"{next(iter(expected))}x")
    assert (wrong.code, "did you mean" in wrong.err, WORD in wrong.err) == (2, True, False), wrong.err
    return saved


POSTGRES = """\
CREATE TYPE public.mood AS ENUM ('ok', 'sad');
CREATE DOMAIN public.price AS numeric(10,2);
CREATE SCHEMA "Odd ""schema";
CREATE TYPE "Odd ""schema"."date" AS ENUM ('x');
CREATE TABLE "Odd ""schema"."T 1" (
    "Key" integer NOT NULL,
    "b,c" "Odd ""schema"."date",
    varint character varying(20),
    "year" public.price,
    m public.mood[],
    c integer GENERATED ALWAYS AS (("Key" + 1)) STORED
);
CREATE TABLE public.parted (
    a timestamp with time zone NOT NULL,
    b numeric(20,0) DEFAULT 1.5 NOT NULL,
    c bit varying(9),
    d interval day to second(3)
) PARTITION BY RANGE (a);
CREATE TABLE public.part PARTITION OF public.parted FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
CREATE TABLE public.keyless (
    a integer
);
ALTER TABLE ONLY "Odd ""schema"."T 1" ADD CONSTRAINT "T 1_pkey" PRIMARY KEY ("b,c", "Key") INCLUDE (varint);
ALTER TABLE ONLY public.parted ADD CONSTRAINT parted_pkey PRIMARY KEY (b, a);
"""
"""As pg_dump writes it."""


def test_postgres(postgres: Postgres, run: CommandLine) -> None:
    from helpers.postgres_tables import DDL

    dump = DDL + POSTGRES
    postgres.sql('DROP SCHEMA IF EXISTS "Odd ""schema" CASCADE')
    postgres.sql(dump + "CREATE VIEW public.seen AS SELECT a FROM public.parted;")
    postgres.sql("ALTER TABLE public.t_types ADD gone int; ALTER TABLE public.t_types DROP gone")
    port = postgres.environment["PGPORT"]
    said = proven(
        run, f"postgresql://postgres:{WORD}@127.0.0.1:{port}/postgres", f"-- PostgreSQL database dump\n{dump}", suffix="sql"
    )
    assert "keyless" in said.err
    assert "produce postgres" in said.err
    ((keyed,),) = postgres.sql(
        "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indrelid WHERE indisprimary AND NOT relispartition"
        " AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)"
    )
    assert len(schemas("saved/cdc_views.yml")) == keyed, "each table that has a key"
    assert 'source: "postgresql://postgres@127.0.0.1' in Path("saved/cdc_views.yml").read_text()
    postgres.sql('DROP SCHEMA "Odd ""schema" CASCADE')


BINLOG = """\
CREATE DATABASE `odd ``db`;
CREATE TABLE `odd ``db`.`T.1` (`K y` int unsigned, `varint` text COMMENT 'a, b)\n) x', v int, PRIMARY KEY (`varint`(9), `K y`));
CREATE TABLE shop.keyless (a int);
"""


def binlog_dump(server: MariaDb | MySql, *tables: str) -> str:
    """What SHOW CREATE TABLE says of tables, whole."""
    parts = []
    for table in tables:
        database, _, name = table.rpartition("@")
        ((_, text),) = server.sql(f"SHOW CREATE TABLE `{database}`.`{name}`")
        parts.append(f"USE `{database}`;\n{text};\n")
    return "-- MySQL dump\n" + "".join(parts)


TABLES = ("odd ``db@T.1", "shop@keyless", "shop@t_keys", "shop@t_types")


def test_mariadb(mariadb: MariaDb, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.mariadb_tables import DDL, statements

    versioned = "CREATE TABLE shop.versioned (a int PRIMARY KEY) WITH SYSTEM VERSIONING"
    others = ("CREATE VIEW shop.seen AS SELECT 1", "CREATE SEQUENCE shop.counted", versioned)
    mariadb.sql("DROP DATABASE IF EXISTS `odd ``db`", *statements(DDL), *statements(BINLOG), *others)
    monkeypatch.setenv("CDC_VIEWS_MARIADB_PASSWORD", mariadb.environment["CDC_VIEWS_MARIADB_PASSWORD"])
    address = f"mariadb://cdc@127.0.0.1:{mariadb.port}"
    said = proven(run, address, binlog_dump(mariadb, *TABLES, "shop@versioned"), suffix="sql")
    assert "keyless" in said.err
    assert run("init", "--from", f"{address}/shop", "--dir", "shop").code == 0
    assert set(schemas("shop/cdc_views.yml")) == {"shop.t_keys", "shop.t_types", "shop.versioned"}
    wrong = run("init", "--from", f"mysql://cdc:{WORD}@127.0.0.1:{mariadb.port}", "--dir", "none")
    assert (wrong.code, WORD in wrong.err) == (2, False), wrong.err
    mariadb.sql("DROP DATABASE `odd ``db`")


@pytest.mark.parametrize("mysql_server", ["9.7", "5.6"], indirect=True)
def test_mysql(mysql: MySql, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.mysql_tables import ddl, statements

    user = f"CREATE USER 'reader'@'%' IDENTIFIED BY '{WORD}'"
    mysql.sql("DROP DATABASE IF EXISTS `odd ``db`", *statements(ddl(mysql.release)), *statements(BINLOG), user)
    mysql.sql("GRANT SELECT ON *.* TO 'reader'@'%'")
    address = f"mysql://reader:{WORD}@127.0.0.1:{mysql.port}/"
    said = proven(run, address, binlog_dump(mysql, *TABLES), suffix="sql")
    assert "keyless" in said.err
    wrong = run("init", "--from", f"mysql://reader:not-{WORD}@127.0.0.1:{mysql.port}", "--dir", "none")
    assert (wrong.code, WORD in wrong.err) == (2, False), wrong.err
    monkeypatch.setenv("CDC_VIEWS_MYSQL_PASSWORD", WORD)
    assert run("init", "--from", f"mysql://reader@127.0.0.1:{mysql.port}", "--dir", "by_variable").code == 0
    mysql.sql("DROP DATABASE `odd ``db`", "DROP USER 'reader'@'%'")


def test_cassandra(cassandra_node: CassandraCluster, run: CommandLine) -> None:
    from helpers.cassandra_odd import BESIDE, CQL

    session, keyspace = cassandra_node.session(), "live_schemas"
    session.execute(f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    for statement in (CQL + BESIDE).format(ks=keyspace).split(";\n"):
        if statement.strip() and "MATERIALIZED VIEW" not in statement:  # the node has these disabled
            session.execute(statement)
    place = f"{keyspace}.times"
    for statement in (f"ALTER TABLE {place} ADD old text", f"ALTER TABLE {place} DROP old", f"ALTER TABLE {place} DROP v"):
        session.execute(statement)
    custom = "'org.apache.cassandra.db.marshal.CompositeType(org.apache.cassandra.db.marshal.UTF8Type)'"
    session.execute(f"CREATE TABLE {keyspace}.unread (k int PRIMARY KEY, odd {custom})")
    described = session.execute(f"DESCRIBE KEYSPACE {keyspace} WITH INTERNALS")
    dump = "\n".join(row.create_statement for row in described)
    node = cassandra_node.nodes[0]
    address = f"cassandra://reader:{WORD}@{node.address}:{node.port}/{keyspace}"
    said = proven(run, address, dump, suffix="cql")
    assert "unread" in said.err
    assert "hits" in said.err
    refused = run("init", "--from", address, "--dir", "none", "--select", f"{keyspace}.unread")
    assert refused.code == 2
    assert "unread" in refused.err
    assert "odd" in refused.err, refused.err
    for name in (keyspace, f"{keyspace}_other"):
        session.execute(f"DROP KEYSPACE {name}")
