"""MySQL: what its log has in place of rows, columns that come and go, a replica that takes over, a log that is lost."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pymysql")

from helpers.command_line import CommandLine
from helpers.mysql_tables import TABLES, MySqlWorkload, ddl, project, statements
from helpers.mysql_views import differences, wait_until_landed
from helpers.producing import Producer, ended, eventually
from services.mysql import PASSWORD, USER, running

if TYPE_CHECKING:
    from services.mysql import MySql

pytestmark = pytest.mark.live

TYPES, KEYS = TABLES
FOLLOWING = "following the binlog"
BOTH = pytest.mark.parametrize("mysql_server", ["9.7", "5.6"], indirect=True)


def follow(producer: Producer, *options: str) -> Producer:
    producer.start(*options).wait_until_said(FOLLOWING, within=150)
    return producer


class Documents:
    """Random partial updates of documents, in the ways that the server logs as differences."""

    def __init__(self, server: MySql) -> None:
        self.server, self.random = server, random.Random(5)
        server.sql(*(f"REPLACE INTO {TYPES} (id, js) VALUES ({n}, '{self.start}')" for n in range(6)))

    start = '{"a": [1, {"b": "x"}, 2.5], "long key \\\\"q\\\\"": {"c": null}, "n": 1, "big": "' + "z" * 3000 + '"}'

    def step(self) -> None:
        pick = self.random.choice
        change = pick((
            "JSON_SET(js, '$.n', js->'$.n' + 1, '$.a[1].b', 'yy')", "JSON_SET(js, '$.a[0]', CAST('12.50' AS DECIMAL(6,2)))",
            "JSON_SET(js, '$.new', CAST('2024-02-03 04:05:06.7' AS DATETIME(6)))", "JSON_REMOVE(js, '$.new')",
            "JSON_SET(js, '$.\"long key \\\\\"q\\\\\"\".c', JSON_OBJECT('k', TRUE, 'é', -1e-9))",
            "JSON_ARRAY_INSERT(js, '$.a[1]', 'in')", "JSON_REMOVE(js, '$.a[3]')",
            "JSON_REPLACE(js, '$.a', JSON_ARRAY(1, JSON_OBJECT()))",
            "JSON_SET(js, '$.bin', CAST(x'00ff' AS JSON))", "JSON_SET(js, '$.day', CAST('-10:11:12' AS TIME(3)))",
        ))  # fmt: skip
        self.server.sql(
            f"UPDATE {TYPES} SET js = {change} WHERE id = {self.random.randrange(6)} OR id = {self.random.randrange(6)}"
        )


def test_differences_of_documents_and_compressed_transactions(mysql_producer: Producer, mysql: MySql, run: CommandLine) -> None:
    mysql.sql("SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'", "SET GLOBAL binlog_transaction_compression = ON")
    try:
        producer = follow(mysql_producer)
        documents, workload = Documents(mysql), MySqlWorkload(mysql, seed=4)
        for _ in range(150):
            documents.step()
        workload.run(100)
        mysql.sql("SET SESSION sql_mode = ''", f"UPDATE {TYPES} SET large = repeat('L', 2000000)")
        wait_until_landed(mysql, within=150)
        assert producer.metric("quarantined_total") == 0
        assert producer.stop() == 0
        assert differences(mysql, run) == []
        kinds = {row[2] for row in mysql.sql(f"SHOW BINLOG EVENTS IN '{mysql.sql('SHOW BINARY LOGS')[-1][0]}'")}
        assert "Transaction_payload" in kinds
    finally:
        mysql.sql("SET GLOBAL binlog_row_value_options = ''", "SET GLOBAL binlog_transaction_compression = OFF")


@BOTH
@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_what_smaller_images_leave_out_keeps_its_value(
    image: str, mysql_producer: Producer, mysql: MySql, run: CommandLine
) -> None:
    mysql.sql(f"SET GLOBAL binlog_row_image = '{image}'")
    try:
        # what such images do not tell: an INSERT's and a REPLACE's defaults, and virtual columns
        mysql.sql("ALTER TABLE shop.t_keys ALTER COLUMN w DROP DEFAULT")
        if mysql.release != "5.6":
            mysql.sql("ALTER TABLE shop.t_types DROP COLUMN virt, ALTER COLUMN unseen DROP DEFAULT, DROP KEY low")
        workload = MySqlWorkload(mysql, seed=7, replaces=False)
        producer = mysql_producer.start()
        producer.wait_until_said(f"binlog_row_image is {image}", within=150)
        producer.wait_until_said(FOLLOWING, within=150)
        workload.run(300)
        wait_until_landed(mysql, within=150)
        assert producer.stop() == 0
        assert differences(mysql, run) == []
    finally:
        mysql.sql("SET GLOBAL binlog_row_image = 'FULL'")


@BOTH
def test_columns_that_come_and_go_and_a_table_made_again(
    mysql_producer: Producer, mysql: MySql, run: CommandLine, tmp_path: Path
) -> None:
    """While it runs. On 5.6 the catalog names the columns; on 9.7 the log does."""
    workload = MySqlWorkload(mysql, seed=3)
    workload.run(100)
    producer = follow(mysql_producer)
    (tmp_path / "schema.sql").write_text(ddl(mysql.release) + "ALTER TABLE shop.t_keys ADD COLUMN extra int;\n")
    for change in (
        "ALTER TABLE shop.t_keys ADD COLUMN extra int AFTER a",
        "ALTER TABLE shop.t_keys DROP COLUMN w, ADD COLUMN w varchar(20) DEFAULT 'w' FIRST",
        "ALTER TABLE shop.t_types MODIFY COLUMN large longtext FIRST",
    ):
        mysql.sql(change, "UPDATE shop.t_keys SET v = concat(v, '.'), w = 'x'")
        wait_until_landed(mysql, within=150)
        workload.run(50)
        wait_until_landed(mysql, within=150)
    mysql.sql("UPDATE shop.t_keys SET extra = b + 1")
    wait_until_landed(mysql, within=150)
    assert run("replay", KEYS).code == 0
    assert differences(mysql, run) == []
    mysql.sql("DROP TABLE shop.t_keys")
    mysql.sql("CREATE TABLE shop.t_keys (b int, v text, w varchar(20), a varchar(10), extra int, PRIMARY KEY (b, a))")
    mysql.sql("INSERT INTO shop.t_keys (b, v, a) VALUES (1, 'v', 'a')")
    wait_until_landed(mysql, within=150)
    producer.kill()
    mysql.sql("UPDATE shop.t_keys SET v = 'again'")
    follow(producer)
    wait_until_landed(mysql, within=150)
    assert producer.stop() == 0
    assert differences(mysql, run) == []


@pytest.mark.parametrize("mysql_server", ["5.6"], indirect=True)
def test_rows_whose_columns_nobody_can_name_any_more_are_told(mysql_producer: Producer, mysql: MySql, run: CommandLine) -> None:
    producer = follow(mysql_producer)
    wait_until_landed(mysql, within=150)
    assert producer.stop() == 0
    mysql.sql("INSERT INTO shop.t_keys (a, b, v, w) VALUES ('a', 1, 'is v', 'is w')")
    mysql.sql("ALTER TABLE shop.t_keys CHANGE v v2 text, CHANGE w v varchar(20)")
    assert "shop.t_keys: it was altered after the rows that the log has" in ended(producer.start(), 3)


@BOTH
def test_a_lost_log_is_told_and_a_snapshot_mends_it(mysql_producer: Producer, mysql: MySql, run: CommandLine) -> None:
    MySqlWorkload(mysql, seed=9).run(50)
    mysql.sql(f"REPLACE INTO {TYPES} (id) VALUES (150)")
    producer = follow(mysql_producer)
    wait_until_landed(mysql, within=150)
    assert producer.stop() == 0
    mysql.sql(f"DELETE FROM {TYPES} WHERE id = 150", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")

    def purged() -> bool:
        last = mysql.sql("SHOW BINARY LOGS")[-1][0]
        mysql.sql(f"PURGE BINARY LOGS TO '{last}'")
        return len(mysql.sql("SHOW BINARY LOGS")) == 1

    eventually(purged, within=30, what="the purge")
    said = ended(producer.start(), 3)
    assert "the server has purged binlog that has not landed" in said
    assert "--snapshot-again" in said
    assert differences(mysql, run) != []
    follow(producer, "--snapshot-again")
    wait_until_landed(mysql, within=150)
    assert producer.stop() == 0
    assert differences(mysql, run) == []

    landed = mysql.gtids()
    mysql.sql(
        "RESET MASTER" if mysql.release == "5.6" else "RESET BINARY LOGS AND GTIDS", f"DELETE FROM {TYPES} WHERE id % 2 = 0"
    )
    assert "the server began its log anew" in ended(producer.start(), 3)
    while not has(mysql, landed):  # by GTIDs alone nothing is missing then
        MySqlWorkload(mysql, seed=10).run(50)
    assert "the server began its log anew" in ended(producer.start(), 3)
    follow(producer, "--snapshot-again")
    wait_until_landed(mysql, within=150)
    assert producer.stop() == 0
    assert differences(mysql, run) == []


def test_transactions_of_every_kind_under_tls(mysql_producer: Producer, mysql: MySql, run: CommandLine) -> None:
    """XA over a kill, rows that foreign keys change, several tables at once, partitions, a table made of a SELECT, tags."""
    mysql.sql(
        "CREATE TABLE shop.parents (b int PRIMARY KEY)",
        "INSERT INTO shop.parents VALUES (1), (2), (3), (4)",
        "ALTER TABLE shop.t_keys ADD FOREIGN KEY (b) REFERENCES shop.parents (b) ON DELETE CASCADE ON UPDATE CASCADE",
        "INSERT INTO shop.t_keys (a, b, v) SELECT char(96 + b), b, 'v' FROM shop.parents",
    )
    mysql_producer.environment["CDC_VIEWS_MYSQL_TLS"] = "on"
    producer = follow(mysql_producer)
    assert "CASCADE" not in producer.log.read_text()
    mysql.sql("XA START 'one'", "UPDATE shop.t_keys SET v = 'by xa' WHERE b = 1", "XA END 'one'", "XA PREPARE 'one'")
    time.sleep(2)
    producer.kill()
    mysql.sql("XA COMMIT 'one'")
    mysql.sql("XA START 'two'", "UPDATE shop.t_keys SET w = 'two' WHERE b = 1", "XA END 'two'", "XA COMMIT 'two' ONE PHASE")
    follow(producer)
    mysql.sql("DELETE FROM shop.parents WHERE b = 2", "UPDATE shop.parents SET b = 30 WHERE b = 3")
    mysql.sql("INSERT INTO shop.t_types (id) VALUES (4)")
    mysql.sql("UPDATE shop.t_keys AS k, shop.t_types AS t SET k.v = 'of two', t.t = 'of two' WHERE k.b = t.id")
    mysql.sql("SET SESSION gtid_next = 'AUTOMATIC:tagged'", "INSERT INTO shop.t_keys (a, b) VALUES ('z', 1)")
    wait_until_landed(mysql, within=150)
    assert differences(mysql, run) == []
    told = [one["message"] for one in producer.said if "an XA transaction that was prepared before" in one["message"]]
    assert len(told) <= 1, "never for one phase; for the other, if it had landed before the kill"
    mysql.sql("CREATE TABLE shop.kept SELECT * FROM shop.t_keys", "DROP TABLE shop.t_keys")
    mysql.sql("CREATE TABLE shop.t_keys (PRIMARY KEY (b, a)) PARTITION BY KEY (b) PARTITIONS 3 SELECT a, b, v, w FROM shop.kept")
    mysql.sql("UPDATE shop.t_keys SET b = b + 1000")
    wait_until_landed(mysql, within=150)
    producer.kill()
    mysql.sql("UPDATE shop.t_keys SET w = 'at last' WHERE b > 1001")
    mysql.sql("UPDATE shop.t_types SET pt = ST_GeomFromText('POINT(10 20)', 4326)")  # latitude first, as its system says
    follow(producer)
    wait_until_landed(mysql, within=150)
    assert producer.stop() == 0
    assert differences(mysql, run, KEYS) == []
    assert [row["pt"] for row in run.query(TYPES)] == [f"0x{struct.pack('<BIdd', 1, 1, 20, 10).hex()}"], "longitude first"
    assert ":tagged:1" in mysql.gtids()


@pytest.mark.parametrize("change", ["rollback", "statement"])
def test_rows_that_the_log_does_not_have_are_told(change: str, mysql_producer: Producer, mysql: MySql) -> None:
    producer = follow(mysql_producer)
    if change == "rollback":
        mysql.sql("XA START 'one'", "INSERT INTO shop.t_keys (a, b) VALUES ('x', 1)", "XA END 'one'", "XA PREPARE 'one'")
        mysql.sql("XA ROLLBACK 'one'")
        assert "was rolled back after its rows were in the log" in ended(producer, 3)
    else:
        mysql.sql("SET SESSION binlog_format = 'STATEMENT'", f"INSERT INTO {TYPES} (id) VALUES (1)")
        assert "the log has a statement in place of its rows" in ended(producer, 3)


@pytest.fixture
def pair(run: CommandLine) -> Iterator[tuple[MySql, MySql]]:
    """A primary, and a replica that follows it by GTID and writes what it applies into a binlog of its own."""
    with running(1) as primary, running(2) as replica:
        primary.sql("DROP DATABASE shop", "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE shop")
        replica.sql(
            "DROP DATABASE shop",
            "RESET BINARY LOGS AND GTIDS",
            f"CHANGE REPLICATION SOURCE TO source_host = '127.0.0.1', source_port = {primary.port}, source_user = '{USER}', "
            f"source_password = '{PASSWORD}', source_auto_position = 1, source_connect_retry = 1, get_source_public_key = 1",
            "START REPLICA",
        )
        yield primary, replica


def has(server: MySql, gtids: str) -> Any:
    return server.sql("SELECT GTID_SUBSET(%s, @@global.gtid_executed)", values=(gtids,))[0][0]


def test_a_replica_takes_over_and_nothing_is_lost(pair: tuple[MySql, MySql], run: CommandLine, tmp_path: Path) -> None:
    primary, replica = pair
    primary.sql(*statements(ddl("9.7")))
    project(tmp_path, "9.7")
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
    producer = Producer(tmp_path, {**primary.environment, "CDC_VIEWS_MYSQL_HOST": hosts}, ["mysql"])
    try:
        MySqlWorkload(primary, seed=1).run(100)
        follow(producer)
        with MySqlWorkload(primary, seed=2).running(pause=0.005):
            time.sleep(5)
        eventually(lambda: has(replica, primary.gtids()), within=120, what=str(replica.sql("SHOW REPLICA STATUS")))
        first = primary.gtids()
        primary.kill()
        replica.sql("STOP REPLICA", "RESET REPLICA ALL")
        producer.wait_until_said("MySQL is away", within=60)
        taken_over = MySqlWorkload(replica, seed=3)
        taken_over.run(100)
        eventually(lambda: producer.log.read_text().count(FOLLOWING) > 1, within=120, what=producer.log.read_text())
        producer.kill()
        taken_over.run(50)
        follow(producer)
        wait_until_landed(replica, within=200)
        assert producer.stop() == 0
        assert replica.gtids().startswith(first.split(":")[0]) or "," in replica.gtids()
        assert len(replica.gtids().split(",")) == 2, "sets of two servers"
        assert differences(replica, run) == []
    finally:
        if producer.is_alive:
            producer.kill()
