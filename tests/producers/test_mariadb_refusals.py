"""What the MariaDB source refuses, and how it says so: before anything is read, and never with a secret."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest
from cdc_producers.binlog import catalog, connections
from cdc_producers.binlog.catalog import check_filters, check_table, read_table
from cdc_producers.binlog.connections import Access, connect, translated
from cdc_producers.binlog.snapshots import read_rows
from cdc_producers.binlog.stream import BinlogStream
from cdc_producers.mariadb import PRODUCER
from cdc_producers.mariadb.dumping import dump_after
from cdc_producers.mariadb.options import MariaDbOptions
from cdc_producers.mariadb.server import MARIADB, read_server
from cdc_producers.mariadb.snapshot import reading
from cdc_producers.mariadb.source import MariaDbSource
from cdc_producers.metrics import Metrics
from helpers.captured import Said
from services.mariadb import MariaDb

from cdc_views.errors import TransientError, UnsupportedError, UsageError
from cdc_views.landing.targets import ProducerProject
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar

SECRET = "s3cr3t-and-long"
KEYED = TableSchema("shop", "a", (Column("id", Scalar(Kind.INT), Role.PARTITION), Column("v", Scalar(Kind.TEXT))))
SERVER = catalog.Server("FULL", ignores_case=False, identity="1")


@pytest.fixture
def connection(mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in mariadb.environment.items():
        monkeypatch.setenv(name, value)
    made = connect(Access.of_environment(MARIADB))
    yield made
    made.close()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({"PASSWORD": SECRET}, UsageError, "set CDC_VIEWS_MARIADB_USER and CDC_VIEWS_MARIADB_PASSWORD"),
        ({"PORT": "1"}, TransientError, "MariaDB is away, connecting to 127.0.0.1:1"),
        ({"TLS": "on"}, UsageError, "TLS"),
    ],
)
def test_no_error_shows_the_password(
    changed: dict[str, str], error: type[Exception], said: str, connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PASSWORD": SECRET, **changed}.items():
        monkeypatch.setenv(f"CDC_VIEWS_MARIADB_{name}", value)
    with pytest.raises(error, match=said) as told:
        connect(Access.of_environment(MARIADB))
    chain: BaseException | None = told.value
    while chain is not None:
        assert SECRET not in str(chain)
        chain = None if chain.__suppress_context__ else chain.__cause__ or chain.__context__
    assert SECRET not in repr(Access.of_environment(MARIADB))


@pytest.mark.heavy
def test_the_second_host_is_taken_where_the_first_does_not_answer(
    connection: Any, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_VIEWS_MARIADB_HOST", f"127.0.0.1:1, 127.0.0.1:{mariadb.port}")
    connect(Access.of_environment(MARIADB)).close()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("binlog_format", "STATEMENT", "binlog_format is STATEMENT where ROW was expected"),
        ("binlog_row_metadata", "MINIMAL", "binlog_row_metadata is MINIMAL where FULL was expected"),
    ],
)
def test_a_server_whose_log_lacks_something_is_refused(
    variable: str, value: str, said: str, connection: Any, mariadb: MariaDb
) -> None:
    ((before,),) = mariadb.sql(f"SELECT @@global.{variable}")
    mariadb.sql(f"SET GLOBAL {variable} = '{value}'")
    try:
        with pytest.raises(UsageError, match=said):
            read_server(connection, log=Said())
    finally:
        mariadb.sql(f"SET GLOBAL {variable} = '{before}'")
    assert read_server(connection, log=Said()).has_full_images


@pytest.mark.heavy
def test_tables_that_are_not_there_or_whose_rows_the_key_does_not_name(connection: Any, mariadb: MariaDb) -> None:
    mariadb.sql("CREATE TABLE shop.a (id int, v varchar(9), UNIQUE KEY (v(3)), UNIQUE KEY (id))")
    with pytest.raises(UsageError, match=r"shop\.b: the server has no such table.*did you mean 'shop\.a'"):
        read_table(connection, "shop.b")
    with pytest.raises(UsageError, match="does not name one row of the table"):
        check_table(read_table(connection, "shop.a"), KEYED, SERVER, allows_unkeyed=False)
    check_table(read_table(connection, "shop.a"), KEYED, SERVER, allows_unkeyed=True)
    mariadb.sql("ALTER TABLE shop.a MODIFY id int NOT NULL")
    check_table(read_table(connection, "shop.a"), KEYED, SERVER, allows_unkeyed=False)
    minimal = catalog.Server("MINIMAL", ignores_case=False, identity="1")
    with pytest.raises(UsageError, match="changes name rows by the primary key"):
        check_table(read_table(connection, "shop.a"), KEYED, minimal, allows_unkeyed=False)
    mariadb.sql("ALTER TABLE shop.a DROP COLUMN id")
    with pytest.raises(UsageError, match="the table has no column id, which is the schema file's key"):
        check_table(read_table(connection, "shop.a"), KEYED, SERVER, allows_unkeyed=True)


@pytest.mark.heavy
def test_foreign_keys_that_change_rows_are_told(connection: Any, mariadb: MariaDb) -> None:
    mariadb.sql(
        "CREATE TABLE shop.p (id int PRIMARY KEY)",
        "CREATE TABLE shop.c (id int PRIMARY KEY, p int, CONSTRAINT goes FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE TABLE shop.d (id int PRIMARY KEY, p int, CONSTRAINT stays FOREIGN KEY (p) REFERENCES p (id))",
        "CREATE TABLE shop.e (id int PRIMARY KEY, p int, CONSTRAINT nulls FOREIGN KEY (p) REFERENCES p (id) ON DELETE SET NULL)",
    )
    log = Said()
    targets: Any = {name: SimpleNamespace(schema=KEYED) for name in ("shop.p", "shop.c", "shop.d", "shop.e")}
    MariaDbSource(targets, MariaDbOptions(), log, Metrics("mariadb"))._prepare(connection)
    assert [line.partition("),")[0] for line in log.lines] == [
        "warning: shop.c: foreign key goes changes rows by itself (CASCADE",
        "warning: shop.e: foreign key nulls changes rows by itself (SET NULL",
    ]
    # the danger is real
    mariadb.sql("INSERT INTO shop.p VALUES (1)", "INSERT INTO shop.c VALUES (2, 1)", "INSERT INTO shop.e VALUES (3, 1)")
    (file, end, *_), *_ = mariadb.sql("SHOW MASTER STATUS")
    mariadb.sql("DELETE FROM shop.p")
    logged = [event[2] for event in mariadb.sql(f"SHOW BINLOG EVENTS IN '{file}' FROM {end}")]
    assert sum(kind.startswith(("Delete_rows", "Update_rows")) for kind in logged) == 1, logged
    assert (mariadb.sql("SELECT * FROM shop.c"), mariadb.sql("SELECT * FROM shop.e")) == ([], [(3, None)])


@pytest.mark.heavy
def test_a_user_without_grants_is_told_which(connection: Any, mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    mariadb.sql("CREATE OR REPLACE USER few IDENTIFIED BY 'x'", "CREATE TABLE shop.a (id int PRIMARY KEY)")
    mariadb.sql("GRANT SELECT ON shop.* TO few")
    monkeypatch.setenv("CDC_VIEWS_MARIADB_USER", "few")
    monkeypatch.setenv("CDC_VIEWS_MARIADB_PASSWORD", "x")
    access = Access.of_environment(MARIADB)
    few = connect(access)
    try:
        read_table(few, "shop.a")
        with pytest.raises(UsageError, match="BINLOG MONITOR"):
            check_filters(few, ["shop"], asked="SHOW MASTER STATUS")
        with pytest.raises(UsageError, match="REPLICATION SLAVE"):
            BinlogStream(access, 4711, 1.0, dump_after([], 4711, 1.0))
    finally:
        few.close()
        mariadb.sql("DROP USER few")


@pytest.mark.heavy
@pytest.mark.parametrize("is_null", [False, True])
def test_a_zero_date_is_no_date(is_null: bool, connection: Any, mariadb: MariaDb) -> None:
    mariadb.sql(
        "CREATE TABLE shop.a (id int PRIMARY KEY, d date, t datetime(3), s timestamp NULL, z int(5) unsigned zerofill)",
        "SET sql_mode = ''",
        "INSERT INTO shop.a VALUES (1, '0000-00-00', '2024-00-01 00:00:00', 0, 7)",
    )
    (row,) = read_rows(connection, read_table(connection, "shop.a"), nulls_zero_dates=is_null)
    zero = ['"0000-00-00"', '"2024-00-01 00:00:00.000"', '"0000-00-00 00:00:00"']
    assert row == ["1", *(["null"] * 3 if is_null else zero), "7"]


@pytest.mark.heavy
def test_a_snapshot_shows_one_moment_and_blocks_no_writes(connection: Any, mariadb: MariaDb) -> None:
    mariadb.sql("CREATE TABLE shop.a (id int PRIMARY KEY, v int)", "INSERT INTO shop.a VALUES (1, 1)")
    table = read_table(connection, "shop.a")
    with reading(Access.of_environment(MARIADB), 0) as snapshot:
        assert list(read_rows(snapshot.connection, table)) == [["1", "1"]]
        waits = "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1"
        mariadb.sql(waits, "UPDATE shop.a SET v = 2", "INSERT INTO shop.a VALUES (2, 2)")
        assert list(read_rows(snapshot.connection, table)) == [["1", "1"]]


@pytest.mark.heavy
def test_a_timestamp_is_utc_whatever_the_zone_of_the_server(connection: Any, mariadb: MariaDb) -> None:
    mariadb.sql("SET GLOBAL time_zone = '+05:00'")
    try:
        mariadb.sql(
            "CREATE TABLE shop.a (id int PRIMARY KEY, s timestamp)", "INSERT INTO shop.a VALUES (1, '2024-01-02 03:04:05')"
        )
        with closing(connect(Access.of_environment(MARIADB))) as made:
            assert list(read_rows(made, read_table(made, "shop.a"))) == [["1", '"2024-01-01 22:04:05Z"']]
    finally:
        mariadb.sql("SET GLOBAL time_zone = 'SYSTEM'")


class MySql:
    """A connection to a server that says it is MySQL."""

    def cursor(self) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    description = True

    def execute(self, text: str) -> None:
        return None

    def fetchall(self) -> list[tuple[str, str]]:
        return [("version", "8.4.2"), ("log_bin", "ON")]


@pytest.mark.parametrize(
    ("version", "is_old"), [("10.4.34-MariaDB", True), ("5.5.5-10.4.34-MariaDB", True), ("10.5.0-MariaDB", False)]
)
def test_a_server_that_is_too_old_is_refused(version: str, is_old: bool) -> None:
    class Server(MySql):
        flavour = MARIADB

        def fetchall(self) -> list[tuple[str, str]]:
            return [("version", version), ("log_bin", "OFF")]

    with pytest.raises(UsageError, match="10.5 or newer was expected" if is_old else "log_bin is OFF"):
        read_server(Server(), log=Said())


def test_mysql_is_refused_by_name_before_anything_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 9.7 answers; `max_statement_time` is MariaDB's alone, and to set it fails for ever."""
    asked: list[str] = []

    class Server(MySql):
        def get_server_info(self) -> str:
            return "9.7.4"

        flavour = MARIADB

        def execute(self, text: str) -> None:
            asked.append(text)

        def fetchall(self) -> list[tuple[str, ...]]:  # type: ignore[override]
            return [("9.7.4",)]

        def close(self) -> None:
            asked.append("closed")

    monkeypatch.setattr(connections, "_connect", lambda *_: Server())
    with pytest.raises(UnsupportedError, match=r"not MariaDB but MySQL 9\.7\.4; read it by `produce mysql`") as told:
        connect(Access.of_environment(MARIADB))
    assert told.value.exit_code == 2
    assert asked == ["SELECT version()", "closed"]


@pytest.mark.parametrize("code", [1193, 1064, 1524])
def test_what_the_server_will_never_know_is_not_tried_again(code: int) -> None:
    assert isinstance(translated(MARIADB, "setting up", pymysql.err.OperationalError(code, "Unknown")), UsageError)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": ""}, "--name is empty"),
        ({"server_id": -1}, "--server-id is -1"),
        ({"gtid_domain": 1 << 32}, "--gtid-domain is 4294967296"),
        ({"skips_snapshot": True, "snapshots_again": True}, "exclude each other"),
        ({"heartbeat_seconds": 0}, "--heartbeat is 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        PRODUCER.chosen(ProducerProject(), options)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PORT", "x", "_PORT is 'x'"),
        ("HOST", "db:99999", "_PORT is '99999'"),
        ("HOST", ",", "_HOST names no host"),
        ("TLS", "maybe", "_TLS is 'maybe'; off, on or verify was expected"),
        ("TLS_CA", "missing.pem", "_TLS_CA is set, and CDC_VIEWS_MARIADB_TLS is off"),
    ],
)
def test_an_environment_that_cannot_be_is_refused(name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"CDC_VIEWS_MARIADB_{name}", value)
    with pytest.raises(UsageError, match=said):
        Access.of_environment(MARIADB)
    monkeypatch.setenv(f"CDC_VIEWS_MARIADB_{name}", "")
    monkeypatch.setenv("CDC_VIEWS_MARIADB_HOST", "[::1]:3307,db,other:3308")
    access = Access.of_environment(MARIADB)
    assert access.hosts == (("::1", 3307), ("db", 3306), ("other", 3308))
    assert access.turned().hosts == (("db", 3306), ("other", 3308), ("::1", 3307))
