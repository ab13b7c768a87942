"""What the PostgreSQL source refuses, and how it says so: before anything is written, and never with a secret."""

from __future__ import annotations

from typing import Any

import pytest
from cdc_producers.postgres import PRODUCER
from cdc_producers.postgres.catalog import check_key, read_table
from cdc_producers.postgres.connections import connect
from cdc_producers.postgres.publications import ensure_publications
from cdc_producers.postgres.slots import Slot, SlotWatcher, find_slot
from cdc_producers.postgres.stream import ReplicationStream
from helpers.captured import Said
from services.postgres import Postgres

from cdc_views.errors import TransientError, UsageError
from cdc_views.landing.targets import ProducerProject
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar

pytestmark = pytest.mark.heavy

SECRET = "s3cr3t"
KEYED = TableSchema("public", "a", (Column("id", Scalar(Kind.INT), Role.PARTITION), Column("v", Scalar(Kind.TEXT))))


@pytest.fixture
def connection(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    made = connect()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("dsn", "error"),
    [
        (f"host=127.0.0.1 pass word={SECRET}", UsageError),
        (f"postgresql://u:{SECRET}@[127.0.0.1:x/d", UsageError),
        (f"postgresql://u:{SECRET}@127.0.0.1:1/d", TransientError),
    ],
)
@pytest.mark.parametrize("is_streaming", [False, True])
def test_no_error_shows_the_password(
    dsn: str, error: type[Exception], is_streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_VIEWS_POSTGRES_DSN", dsn)
    with pytest.raises(error) as told:
        (ReplicationStream("") if is_streaming else connect())
    chain: BaseException | None = told.value
    while chain is not None:
        assert SECRET not in str(chain)
        chain = None if chain.__suppress_context__ else chain.__cause__ or chain.__context__


def test_a_database_that_is_not_there_is_the_users_to_name(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATABASE", "nowhere")
    with pytest.raises(UsageError, match='"nowhere" does not exist; set PGDATABASE'):
        connect()


def test_a_table_without_a_key_is_refused_unless_asked_for(connection: Any, postgres: Postgres) -> None:
    postgres.sql("CREATE TABLE public.a (id int, v text)")
    with pytest.raises(UsageError, match="has no primary key, and once published it would refuse UPDATE and DELETE"):
        check_key(read_table(connection, "public.a"), KEYED, allows_unkeyed=False)
    check_key(read_table(connection, "public.a"), KEYED, allows_unkeyed=True)
    postgres.sql("ALTER TABLE public.a REPLICA IDENTITY FULL")
    check_key(read_table(connection, "public.a"), KEYED, allows_unkeyed=False)


def test_a_key_of_other_columns_is_refused(connection: Any, postgres: Postgres) -> None:
    postgres.sql("CREATE TABLE public.a (id int, v text PRIMARY KEY)")
    with pytest.raises(UsageError, match="the schema file's key has id, which the table's changes do not name"):
        check_key(read_table(connection, "public.a"), KEYED, allows_unkeyed=False)
    check_key(read_table(connection, "public.a"), KEYED, allows_unkeyed=True)


def test_a_table_that_is_not_there_is_suggested(connection: Any, postgres: Postgres) -> None:
    postgres.sql("CREATE TABLE public.orders (id int)")
    with pytest.raises(UsageError, match=r"did you mean 'public\.orders'"):
        read_table(connection, "public.order")


def test_a_publication_is_made_completed_and_never_taken_that_leaves_changes_out(connection: Any, postgres: Postgres) -> None:
    postgres.sql("CREATE TABLE public.a (id int PRIMARY KEY); CREATE TABLE public.b (id int PRIMARY KEY)")
    tables = [read_table(connection, name) for name in ("public.a", "public.b")]
    log = Said()
    ensure_publications(connection, "ours", tables[:1], log=log)
    ensure_publications(connection, "ours", tables, log=log)
    ensure_publications(connection, "ours", tables, log=log)
    assert log.lines == ["publication ours created", "publication ours: added public.b"]
    postgres.sql("ALTER PUBLICATION ours SET (publish = 'insert')")
    with pytest.raises(UsageError, match="leaves out some of insert, update, delete and truncate"):
        ensure_publications(connection, "ours", tables, log=log)


def test_a_slot_of_another_plugin_is_refused(connection: Any, postgres: Postgres) -> None:
    assert find_slot(connection, "other") is None
    postgres.sql("SELECT pg_create_logical_replication_slot('other', 'test_decoding')")
    with pytest.raises(UsageError, match="where pgoutput on this one was expected"):
        find_slot(connection, "other")


def test_log_that_piles_up_and_a_slot_near_its_end_are_told_once() -> None:
    log = Said()
    watch = SlotWatcher("ours", log, 10 << 20)
    for held, safe in (
        (1 << 20, None),
        (11 << 20, None),
        (12 << 20, None),
        (1 << 20, None),
        (1 << 20, 1 << 30),
        (1 << 20, 5 << 20),
    ):
        watch.look(Slot(confirmed=3, held_bytes=held, written=10, is_lost=False, safe_bytes=safe, active_process=1))
    assert [line[:60] for line in log.lines] == [
        "warning: the server keeps 11 MiB of log for slot ours; it goes"[:60],
        "warning: the server keeps 1 MiB of log for slot ours, and lo"[:60],
    ]
    assert (watch.held_bytes, watch.behind_bytes) == (1 << 20, 7)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"slot": "With-Dash"}, "--slot is 'With-Dash'"),
        ({"skips_snapshot": True, "snapshots_again": True}, "exclude each other"),
        ({"heartbeat_seconds": 0}, "--heartbeat"),
        ({"echo_seconds": 0}, "--echo"),
        ({"plugin": "decoderbufs"}, "--plugin decoderbufs: this producer reads pgoutput and wal2json"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PRODUCER.chosen(ProducerProject(), options)
