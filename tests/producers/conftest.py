"""Real servers for the producers' tests, one of each kind a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.command_line import CommandLine

if TYPE_CHECKING:
    from helpers.producing import Producer
    from services.cassandra import CassandraCluster
    from services.kafka import Kafka
    from services.mariadb import MariaDb
    from services.mysql import MySql
    from services.postgres import Postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL of this run's own."""
    pytest.importorskip("psycopg")
    from services.postgres import running

    with running() as server:
        yield server


def without_slots(server: Postgres) -> bool:
    """Drop the slots that nobody reads, end those who read; whether none is left: who was ended may take a moment to go."""
    server.sql(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active; "
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
    )
    return server.sql("SELECT count(*) FROM pg_replication_slots") == [(0,)]


@pytest.fixture
def postgres(postgres_server: Postgres) -> Iterator[Postgres]:
    """The same with an empty schema `public`, and no slot nor publication."""
    server = postgres_server
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield server
    from helpers.producing import eventually

    eventually(lambda: without_slots(server), within=10, what="slots dropped")
    for (name,) in server.sql("SELECT pubname FROM pg_publication"):
        server.sql(f'DROP PUBLICATION "{name}"')


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was captured of a Cassandra node: see `captured_cassandra`."""
    from helpers.captured_cassandra import unpacked

    return unpacked(tmp_path_factory.mktemp("capture"))


@pytest.fixture(scope="session")
def lib() -> Path:
    """The folder of Cassandra's jars."""
    pytest.importorskip("cassandra")
    from services.cassandra import jars

    return jars()


@pytest.fixture(scope="session")
def cassandra_node() -> Iterator[CassandraCluster]:
    """One Cassandra node of this run's own; a test makes a keyspace of its own in it."""
    pytest.importorskip("cassandra")
    from services.cassandra import running

    with running(1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cassandra_cluster() -> Iterator[CassandraCluster]:
    """Three Cassandra nodes of this run's own; a test that kills one starts it again."""
    pytest.importorskip("cassandra")
    from services.cassandra import running

    with running(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_server() -> Iterator[Kafka]:
    """A Kafka of this run's own."""
    pytest.importorskip("confluent_kafka")
    from services.kafka import running

    with running() as server:
        yield server


@pytest.fixture
def kafka(kafka_server: Kafka) -> Iterator[Kafka]:
    """The same without topics."""
    yield kafka_server
    for topic in [name for name in kafka_server.admin.list_topics(timeout=10).topics if not name.startswith("__")]:
        kafka_server.delete(topic)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDb]:
    """A MariaDB of this run's own."""
    pytest.importorskip("pymysql")
    from services.mariadb import running

    with running() as server:
        yield server


@pytest.fixture
def mariadb(mariadb_server: MariaDb) -> MariaDb:
    """The same with an empty database `shop`."""
    mariadb_server.sql("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    return mariadb_server


@pytest.fixture(scope="session")
def mysql_server(request: pytest.FixtureRequest) -> Iterator[MySql]:
    """A MySQL of this run's own; a test says which releases by parametrizing this."""
    pytest.importorskip("pymysql")
    from services.mysql import running
    from services.mysql_programs import NoMySqlError

    try:
        with running(release=getattr(request, "param", "9.7")) as server:
            yield server
    except NoMySqlError as error:
        pytest.skip(str(error))


@pytest.fixture
def mysql(mysql_server: MySql) -> MySql:
    """The same with an empty database `shop`."""
    mysql_server.sql("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
    return mysql_server


@pytest.fixture
def mysql_producer(mysql: MySql, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    """A producer of a project of the tables of all types, which the server has, empty; not started."""
    from helpers.mysql_tables import ddl, project, statements
    from helpers.producing import Producer

    mysql.sql(*statements(ddl(mysql.release)))
    project(tmp_path, mysql.release)
    yield from _ended(Producer(tmp_path, mysql.environment, ["mysql"]))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def producer(postgres: Postgres, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    """A producer of a project of the tables of 27 types, which the server has, empty; not started."""
    from helpers.postgres_tables import DDL, STORAGE, project
    from helpers.producing import Producer

    postgres.sql(DDL + STORAGE)
    project(tmp_path)
    made = Producer(tmp_path, postgres.environment, ["postgres", "--confirm", "0.5"])
    yield from _ended(made)


@pytest.fixture
def cassandra(cassandra_node: CassandraCluster) -> CassandraCluster:
    """The same with the workload's tables, empty."""
    from helpers.cassandra_tables import create

    create(cassandra_node.session())
    return cassandra_node


@pytest.fixture
def agent(cassandra: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    """The node's agent, of a project of the workload's tables; not started."""
    from helpers.cassandra_tables import project
    from helpers.producing import Producer

    project(tmp_path)
    node = cassandra.nodes[0]
    where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    made = Producer(tmp_path, {}, ["cassandra", *where])
    yield from _ended(made)


@pytest.fixture
def kafka_producer(kafka: Kafka, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    """A producer of a project of three topics, which the broker has, empty; not started."""
    from helpers.kafka_topics import create, project
    from helpers.producing import Producer

    create(kafka)
    project(tmp_path)
    made = Producer(tmp_path, kafka.environment, ["kafka"])
    yield from _ended(made)


@pytest.fixture
def mariadb_producer(mariadb: MariaDb, run: CommandLine, tmp_path: Path) -> Iterator[Producer]:
    """A producer of a project of the tables of 40 types, which the server has, empty; not started."""
    from helpers.mariadb_tables import DDL, project, statements
    from helpers.producing import Producer

    mariadb.sql(*statements(DDL))
    project(tmp_path)
    made = Producer(tmp_path, mariadb.environment, ["mariadb"])
    yield from _ended(made)


def _ended(made: Producer) -> Iterator[Producer]:
    yield made
    if made.is_alive:
        made.kill()
