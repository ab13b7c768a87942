"""Errors that are the same at each attempt end a producer; those that pass are tried again."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from typing import Any

import psycopg
import pytest
from cdc_producers.metrics import Metrics
from cdc_producers.postgres import source
from cdc_producers.postgres.catalog import read_table
from cdc_producers.postgres.connections import connect, postgres_errors, refusal, rows
from cdc_producers.postgres.options import PostgresOptions, ServerRole, SlotFailover
from cdc_producers.postgres.publications import ensure_publications
from cdc_producers.postgres.slots import StandbyError, check_logical
from cdc_producers.postgres.stream import NoPublicationError, ReplicationStream
from helpers.captured import Said
from services.postgres import Postgres

from cdc_views.errors import CdcViewsError, TransientError, UsageError


@pytest.fixture
def environment(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Postgres:
    for name, value in postgres.environment.items():
        monkeypatch.setenv(name, value)
    return postgres


@pytest.mark.parametrize(
    ("said", "code", "is_refused"),
    [
        ('FATAL: role "nobody" does not exist', "", True),
        ('FATAL: database "nowhere" does not exist', "", True),
        ('FATAL: password authentication failed for user "u"', "", True),
        ('FATAL: role "u" is not permitted to log in', "", True),
        ("FATAL: permission denied to start WAL sender", "", True),
        ('no pg_hba.conf entry for replication connection from host "::1"', "", True),
        ("server does not support SSL, but SSL was required", "", True),
        ("all replication slots are in use", "53400", True),
        ("cannot execute CREATE PUBLICATION in a read-only transaction", "25006", True),
        ('cannot add relation "u" to publication', "22023", True),
        ('relation "p1" is already member of publication "p"', "42710", True),
        ("syntax error", "42601", True),
        ("connection refused", "", False),
        ("the database system is starting up", "57P03", False),
        ("sorry, too many clients already", "53300", False),
        ('relation "public.a" does not exist', "42P01", False),
        ("recovery is in progress", "55000", False),
        ("could not read block", "XX001", False),
    ],
)
def test_what_lasts_is_the_users_and_what_passes_is_not(said: str, code: str, is_refused: bool) -> None:
    assert (refusal("doing", said, code) is not None) == is_refused


@pytest.mark.heavy
@pytest.mark.parametrize(("variable", "value"), [("PGUSER", "nobody"), ("PGDATABASE", "nowhere"), ("PGSSLMODE", "require")])
@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_connection_that_is_refused_is_not_away(
    environment: Postgres, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, is_streaming: bool
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError):
        (ReplicationStream("") if is_streaming else connect())


@pytest.mark.heavy
def test_a_role_that_may_not_replicate_is_told(environment: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.sql("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN")
    monkeypatch.setenv("PGUSER", "plain")
    for attempt in (lambda: ReplicationStream(""), lambda: connect(is_replication=True)):
        with pytest.raises(UsageError, match="WAL sender"):
            attempt()
    environment.sql("DROP ROLE plain")


@pytest.mark.heavy
def test_a_publication_that_came_after_the_log_is_told(environment: Postgres) -> None:
    environment.sql("CREATE TABLE public.a (id int PRIMARY KEY)")
    environment.sql("SELECT pg_create_logical_replication_slot('ours', 'pgoutput')")
    environment.sql("INSERT INTO public.a VALUES (1)")
    connection = connect()
    ensure_publications(connection, "late", [read_table(connection, "public.a")], log=Said())
    connection.close()
    options = "proto_version '1', publication_names '\"late\"'"
    stream = ReplicationStream(f'START_REPLICATION SLOT "ours" LOGICAL 0/0 ({options})')

    def read() -> None:
        for _ in range(100):
            if stream.read() is None:
                stream.wait(0.1)

    with pytest.raises(NoPublicationError):
        read()
    stream.close()


@dataclass
class Saying:
    """A connection to a server that says this of itself."""

    version: int
    is_standby: bool
    level: str = "logical"
    description: bool = True

    def cursor(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def execute(self, *_: object) -> None:
        return None

    def close(self) -> None:
        return None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [(self.version, self.level, self.is_standby)]


@pytest.mark.parametrize(
    ("version", "level", "said"),
    [
        (130_021, "logical", "PostgreSQL 13 is too old; 14 or newer was expected"),
        (140_000, "replica", "wal_level is replica; set wal_level = logical"),
    ],
)
def test_a_server_without_what_is_needed_is_refused(version: int, level: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "connect", lambda: Saying(version, is_standby=False, level=level))
    with pytest.raises(UsageError, match=said):
        source.PostgresSource({}, PostgresOptions(), Said(), Metrics("postgres")).run(lambda _: None, Event())
    check_logical(Saying(140_000, is_standby=False))


def test_a_standby_is_refused_by_name() -> None:
    with pytest.raises(StandbyError, match=r"is a standby .*recovery is in progress.*PGTARGETSESSIONATTRS=primary"):
        check_logical(Saying(170_005, is_standby=True))


def test_a_standby_that_is_wanted_decodes_from_16_on() -> None:
    check_logical(Saying(160_009, is_standby=True), may_be_standby=True)
    check_logical(Saying(150_001, is_standby=False), may_be_standby=True)  # it has taken over
    with pytest.raises(UsageError, match=r"--server standby: PostgreSQL 15 decodes on primaries alone; 16 or newer was expected"):
        check_logical(Saying(150_001, is_standby=True), may_be_standby=True)


@pytest.mark.parametrize("more", [{"slot_failover": SlotFailover.ON}, {"echo_seconds": 1.0}])
def test_what_a_standby_cannot_do_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="give it without --server standby"):
        PostgresOptions(server=ServerRole.STANDBY, **more)


def test_a_slot_that_fails_over_needs_a_server_that_has_such() -> None:
    check_logical(Saying(160_009, is_standby=False))
    check_logical(Saying(170_005, is_standby=False), fails_over=True)
    with pytest.raises(UsageError, match=r"--slot-failover: PostgreSQL 16 has no such slots; 17 or newer was expected"):
        check_logical(Saying(160_009, is_standby=False), fails_over=True)


def test_a_server_that_goes_away_is_waited_for() -> None:
    def fails() -> None:
        with postgres_errors("asking"):
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    with pytest.raises(TransientError, match="PostgreSQL is away, asking"):
        fails()


@pytest.mark.heavy
def test_a_read_only_server_is_told(environment: Postgres) -> None:
    connection = connect()
    rows(connection, "SET default_transaction_read_only = on", doing="setting")
    with pytest.raises(CdcViewsError, match="read-only transaction") as told:
        rows(connection, "CREATE PUBLICATION p FOR ALL TABLES", doing="creating")
    assert told.value.exit_code == 2
    connection.close()
