"""Publications that are there already: what one leaves out is refused, and what the refusal says mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cdc_producers.postgres.catalog import LeftOutError, check_key, read_table, type_catalog
from cdc_producers.postgres.connections import connect
from cdc_producers.postgres.options import PostgresOptions
from cdc_producers.postgres.pgoutput import PgOutputReader
from cdc_producers.postgres.publications import check_publications, ensure_publications
from cdc_producers.postgres.shapes import Landed
from cdc_producers.postgres.slots import exported_snapshot
from cdc_producers.postgres.snapshots import read_rows
from cdc_producers.postgres.snapshots import reading as snapshot_at
from cdc_producers.postgres.stream import Progress, SlotStream
from cdc_producers.postgres.tables import Tables
from helpers.captured import Said
from psycopg.errors import ObjectNotInPrerequisiteState
from services.postgres import Postgres

from cdc_views.errors import UsageError
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.schemas import read_schema

pytestmark = pytest.mark.heavy

TABLES = """
CREATE TABLE public.a (id int PRIMARY KEY, v text, w text);
CREATE TABLE public.p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (100);
CREATE SCHEMA other;
"""
KEYED = TableSchema("public", "a", (Column("id", Scalar(Kind.INT), Role.PARTITION), Column("v", Scalar(Kind.TEXT))))


@pytest.fixture
def connection(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    postgres.sql("DROP SCHEMA IF EXISTS other CASCADE")
    postgres.sql(TABLES)
    made = connect()
    yield made
    made.close()


def tables_of(folder: Path, columns: str) -> tuple[Tables, Said]:
    """Table public.b of that DDL, of which nothing has landed."""
    log: Any = Said()
    (folder / "schema.sql").write_text(f"CREATE TABLE public.b ({columns});")
    targets: Any = {"public.b": SimpleNamespace(schema=read_schema(folder / "schema.sql", table="b", keyspace="public"))}
    snapshots: Any = SimpleNamespace(landed=lambda _: Landed(None, None))
    nothing: Any = None
    return Tables(targets, PostgresOptions(publication="ours"), log, nothing, snapshots, nothing), log


def ensured(connection: Any, *names: str) -> None:
    ensure_publications(connection, "ours", [read_table(connection, name) for name in names], log=Said())


@pytest.mark.parametrize(
    ("publication", "table", "said"),
    [
        ("FOR ALL TABLES", "public.p", "publishes its partitions' changes under their own names"),
        ("FOR TABLE public.p", "public.p", "publishes its partitions' changes under their own names"),
        ("FOR TABLES IN SCHEMA public", "public.p", "publishes its partitions' changes under their own names"),
        ("FOR TABLE public.a", "public.p", "publishes its partitions' changes under their own names"),
        ("FOR TABLE public.a (id, w)", "public.a", "leaves out some columns"),
        ("FOR TABLE public.a WHERE (id <> 4)", "public.a", "leaves out some rows"),
        ("FOR TABLE public.a (id, w) WHERE (id <> 4)", "public.a", "leaves out some columns and some rows"),
        ("FOR TABLE public.p (id) WITH (publish_via_partition_root)", "public.p", "leaves out some columns"),
        ("FOR TABLE public.p WHERE (id > 4) WITH (publish_via_partition_root)", "public.p", "leaves out some rows"),
        ("FOR TABLE public.a WITH (publish = 'insert, truncate')", "public.a", "leaves out some of insert, update"),
    ],
)
def test_a_publication_that_leaves_out_is_refused_and_its_remedy_works(
    connection: Any, postgres: Postgres, publication: str, table: str, said: str
) -> None:
    postgres.sql(f"CREATE PUBLICATION ours {publication}")
    with pytest.raises(LeftOutError, match=said) as told:
        ensured(connection, table)
    remedy = str(told.value).partition("; ")[2]
    assert remedy.startswith(("ALTER PUBLICATION", "BEGIN; ALTER PUBLICATION"))
    postgres.sql(remedy)
    ensured(connection, table)
    check_publications(connection, "ours", [read_table(connection, table)])
    # what is published now comes under the table's own name, with all of its columns
    postgres.sql("SELECT pg_create_logical_replication_slot('look', 'pgoutput')")
    postgres.sql(f"INSERT INTO {table} (id, v) VALUES (4, 'seen')")
    text = "SELECT data FROM pg_logical_slot_get_binary_changes('look', NULL, NULL, 'proto_version', '1', "
    sent = b"".join(bytes(data) for (data,) in postgres.sql(text + "'publication_names', 'ours')"))
    assert table.encode().replace(b".", b"\0") + b"\0" in sent
    assert b"seen" in sent


def test_a_user_who_may_only_read_is_told_the_owners_statement(
    connection: Any, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.sql("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN REPLICATION; GRANT SELECT ON public.a TO reader")
    monkeypatch.setenv("PGUSER", "reader")
    reading = connect()
    try:
        with pytest.raises(UsageError, match="permission denied") as told:
            ensured(reading, "public.a")
        found = re.search(r"have it done: (CREATE PUBLICATION .*)\): ", str(told.value))
        assert found, told.value
        postgres.sql(found[1])
        ensured(reading, "public.a")
        # that role needs no more to read a snapshot, and the log
        postgres.sql("GRANT USAGE ON SCHEMA public TO reader; INSERT INTO public.a VALUES (1, 'v', 'w')")
        with exported_snapshot("theirs", is_temporary=False) as snapshot, snapshot_at(snapshot) as seeing:
            assert list(read_rows(seeing, read_table(reading, "public.a"), ("id", "v"))) == [("1", "v")]
        stream = SlotStream("theirs", PgOutputReader(["ours"]), heartbeat_seconds=1, progress=Progress())
        stream.close()
    finally:
        reading.close()
        postgres.sql("DROP OWNED BY reader; DROP ROLE reader")


@pytest.mark.parametrize(
    "publication",
    [
        "FOR ALL TABLES",
        "FOR TABLES IN SCHEMA public",
        "FOR TABLE public.a",
        "FOR TABLES IN SCHEMA public, TABLE public.a WHERE (id > 4)",
        "FOR ALL TABLES WITH (publish_via_partition_root)",
    ],
)
def test_a_publication_of_everything_is_taken(connection: Any, postgres: Postgres, publication: str) -> None:
    postgres.sql(f"CREATE PUBLICATION ours {publication}")
    ensured(connection, "public.a")


@pytest.mark.parametrize("publication", ["FOR ALL TABLES", "FOR TABLE public.p"])
def test_a_partition_that_is_published_as_its_root_is_refused(connection: Any, postgres: Postgres, publication: str) -> None:
    postgres.sql(f"CREATE PUBLICATION ours {publication} WITH (publish_via_partition_root)")
    with pytest.raises(LeftOutError, match=r"public\.p1: publication ours publishes its changes under the name of the table"):
        ensured(connection, "public.p1")
    ensured(connection, "public.p")


def test_what_was_published_is_missed_and_not_put_back_silently(connection: Any, postgres: Postgres) -> None:
    table = read_table(connection, "public.a")
    ensured(connection, "public.a")
    check_publications(connection, "ours", [table])
    for change in ("ALTER PUBLICATION ours DROP TABLE public.a", "DROP PUBLICATION ours"):
        postgres.sql(change)
        with pytest.raises(LeftOutError, match=r"was dropped, or public\.a taken out of it") as told:
            check_publications(connection, "ours", [table])
        assert told.value.tables == ("public.a",), "which ends the run with 3 where it has landed"
        with pytest.raises(LeftOutError, match=r"was dropped, or public\.a taken out of it"):
            ensure_publications(connection, "ours", [table], published={"public.a"}, log=Said())
        ensured(connection, "public.a")
    postgres.sql("ALTER PUBLICATION ours SET TABLE public.a WHERE (id > 5)")
    with pytest.raises(LeftOutError, match="leaves out some rows"):
        check_publications(connection, "ours", [table])


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("CREATE TABLE public.b (id int PRIMARY KEY DEFERRABLE, v text)", "has a DEFERRABLE primary key"),
        ("CREATE TABLE public.b (id int, v text)", "has no primary key"),
        ("CREATE TABLE public.b (id int PRIMARY KEY, v text); ALTER TABLE public.b REPLICA IDENTITY NOTHING", "IDENTITY NOTHING"),
        (
            "CREATE TABLE public.b (id int PRIMARY KEY, v int NOT NULL); CREATE UNIQUE INDEX i ON public.b (v); "
            "ALTER TABLE public.b REPLICA IDENTITY USING INDEX i; DROP INDEX i",
            "an index that is gone",
        ),
        (
            "CREATE TABLE public.b (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); "
            "CREATE TABLE public.b1 PARTITION OF public.b FOR VALUES FROM (0) TO (100); "
            "ALTER TABLE public.b1 REPLICA IDENTITY NOTHING",
            "its partition public.b1 has REPLICA IDENTITY NOTHING",
        ),
        (
            "CREATE TABLE public.b (id int, v text) PARTITION BY RANGE (id); "
            "CREATE TABLE public.b1 PARTITION OF public.b FOR VALUES FROM (0) TO (100); "
            "ALTER TABLE public.b REPLICA IDENTITY FULL",
            "its partition public.b1 has no primary key",
        ),
    ],
)
def test_a_table_that_would_refuse_updates_once_published_is_refused(
    connection: Any, postgres: Postgres, tmp_path: Path, ddl: str, said: str
) -> None:
    postgres.sql(ddl)
    refusal = f"{said}.* once published it would refuse UPDATE and DELETE"
    with pytest.raises(UsageError, match=refusal) as told:
        check_key(read_table(connection, "public.b"), KEYED, allows_unkeyed=False)
    tables, _ = tables_of(tmp_path, "id int PRIMARY KEY, v text")
    with pytest.raises(UsageError, match=refusal):
        tables.prepare(connection)
    assert postgres.sql("SELECT pubname FROM pg_publication") == []
    # the danger is real, and the remedy that is named ends it
    postgres.sql("CREATE PUBLICATION danger FOR TABLE public.b; INSERT INTO public.b VALUES (1, '1')")
    with pytest.raises(ObjectNotInPrerequisiteState, match="does not have a replica identity"):
        postgres.sql("UPDATE public.b SET v = '2'")
    _, _, rest = str(told.value).partition("or ALTER TABLE")
    postgres.sql("ALTER TABLE" + rest.partition(",")[0])
    check_key(read_table(connection, "public.b"), KEYED, allows_unkeyed=False)
    postgres.sql("UPDATE public.b SET v = '2'; DELETE FROM public.b")


def test_inserts_taken_alone_leave_updates_to_the_application(connection: Any, postgres: Postgres, tmp_path: Path) -> None:
    postgres.sql("CREATE TABLE public.b (id int, v text)")
    tables = [read_table(connection, name) for name in ("public.a", "public.b")]
    asked, _ = tables_of(tmp_path, "id int PRIMARY KEY, v text")
    asked.options = replace(asked.options, allows_unkeyed=True)
    asked.prepare(connection)
    assert asked.publications == ["ours_inserts"]
    assert ensure_publications(connection, "ours", tables, log=Said()) == ["ours", "ours_inserts"]
    postgres.sql("SELECT pg_create_logical_replication_slot('look', 'pgoutput')")
    postgres.sql("INSERT INTO public.b VALUES (1, 'x'); UPDATE public.b SET v = 'y'; DELETE FROM public.b")
    text = "SELECT data FROM pg_logical_slot_get_binary_changes('look', NULL, NULL, 'proto_version', '1', "
    sent = postgres.sql(text + "'publication_names', 'ours,ours_inserts')")
    assert [bytes(data)[:1] for (data,) in sent if bytes(data)[:1] in (b"I", b"U", b"D")] == [b"I"]
    check_publications(connection, "ours", tables)


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("CREATE UNLOGGED TABLE public.b (id int PRIMARY KEY)", 'is UNLOGGED: .*ALTER TABLE "public"."b" SET LOGGED'),
        ("CREATE VIEW public.b AS SELECT 1 AS id", "is a view"),
        ("CREATE MATERIALIZED VIEW public.b AS SELECT 1 AS id", "is a materialized view"),
        (
            "DROP FOREIGN DATA WRAPPER IF EXISTS w CASCADE; CREATE FOREIGN DATA WRAPPER w; "
            "CREATE SERVER s FOREIGN DATA WRAPPER w; CREATE FOREIGN TABLE public.b (id int) SERVER s",
            "is a foreign table",
        ),
        (
            "CREATE TABLE public.b (id int PRIMARY KEY) PARTITION BY RANGE (id); "
            "CREATE UNLOGGED TABLE public.b1 PARTITION OF public.b FOR VALUES FROM (0) TO (100)",
            "its partition public.b1 is UNLOGGED",
        ),
    ],
)
def test_a_table_without_a_log_is_refused(connection: Any, postgres: Postgres, ddl: str, said: str) -> None:
    postgres.sql(ddl)
    with pytest.raises(LeftOutError, match=said):
        read_table(connection, "public.b")


def test_bytes_in_the_schema_file_that_the_source_prints_as_text_are_refused(
    connection: Any, postgres: Postgres, tmp_path: Path
) -> None:
    postgres.sql("CREATE DOMAIN public.bytes AS bytea")
    postgres.sql("CREATE TABLE public.b (id int PRIMARY KEY, a bytea, b public.bytes, c point, d bit(8), e varbit)")
    tables, log = tables_of(tmp_path, "id int PRIMARY KEY, a bytea, b bytea, c point, d bit(8), e varbit, gone int, made int")
    postgres.sql("ALTER TABLE public.b ADD COLUMN made int GENERATED ALWAYS AS (id + 1) STORED")
    tables.prepare(connection)
    tables.check_columns(type_catalog(connection))
    assert log.lines[-1] == (
        "warning: public.b: generated columns are not in PostgreSQL's log: made stay null; the source has no column gone"
    )
    for kind in ("box", "path", "polygon", "line", "lseg", "circle"):
        postgres.sql(f"DROP TABLE public.b; CREATE TABLE public.b (id int PRIMARY KEY, v {kind})")
        tables, _ = tables_of(tmp_path, f"id int PRIMARY KEY, v {kind}")
        tables.prepare(connection)
        with pytest.raises(UsageError, match=r"public\.b: v: of a type that PostgreSQL prints as text, .*; make it text there"):
            tables.check_columns(type_catalog(connection))
        tables, _ = tables_of(tmp_path, "id int PRIMARY KEY, v text")
        tables.prepare(connection)
        tables.check_columns(type_catalog(connection))


def test_columns_that_a_key_merely_includes_are_not_of_the_key(connection: Any, postgres: Postgres) -> None:
    postgres.sql("CREATE TABLE public.b (id int, v text, w int, PRIMARY KEY (id) INCLUDE (v))")
    table = read_table(connection, "public.b")
    assert (table.primary_key, table.identity) == (("id",), frozenset({"id"}))
