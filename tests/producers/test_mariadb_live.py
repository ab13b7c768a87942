"""MariaDB for minutes: many kills, DDL, failover, purged binlog, minimal images, servers that go away."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.certificates import self_signed
from helpers.command_line import CommandLine
from helpers.mariadb_tables import DDL, TABLES, Workload, project, statements
from helpers.mariadb_views import differences, landed_twice, raw_location, wait_until_landed
from helpers.producing import Producer, ended, eventually
from services.mariadb import PASSWORD, USER, MariaDb, running

from cdc_views.api import Project

pytestmark = pytest.mark.live

KILLS = int(os.environ.get("CDC_VIEWS_KILLS", "20"))
SEED = int(os.environ.get("CDC_VIEWS_SEED", "7"))
TYPES, KEYS = TABLES
PREPARED_BEFORE = "commits an XA transaction that was prepared before this producer started"
FOLLOWING = "following the binlog"


def test_many_kills_and_columns_that_come_and_go(
    mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine, tmp_path: Path
) -> None:
    producer, chance = mariadb_producer, random.Random(SEED)
    workload = Workload(mariadb, seed=SEED)
    workload.run(1000)
    producer.start()
    changes = {
        KILLS // 4: "ALTER TABLE shop.t_keys ADD COLUMN extra int AFTER a",
        KILLS // 2: "ALTER TABLE shop.t_keys DROP COLUMN w, ADD COLUMN w varchar(20) DEFAULT 'w' FIRST",
        KILLS * 3 // 4: "ALTER TABLE shop.t_types MODIFY COLUMN large longtext FIRST",
    }
    with workload.running(pause=0.02):
        for kill in range(KILLS):
            if chance.random() < 0.7:
                producer.wait_until_said(FOLLOWING, within=120)
            time.sleep(chance.random() * 2.5)
            producer.kill()
            if kill in changes:
                mariadb.sql(changes[kill], "UPDATE shop.t_keys SET v = concat(v, '.'), w = 'x'")
            producer.start()
        producer.wait_until_said(FOLLOWING, within=120)
        mariadb.sql("UPDATE shop.t_keys SET extra = b + 1")
        producer.wait_until_said("went to quarantine", within=300)
        (tmp_path / "schema.sql").write_text(DDL + "ALTER TABLE shop.t_keys ADD COLUMN extra int;\n")
        producer.wait_until_said("follows the changed schema")
        mariadb.sql("UPDATE shop.t_keys SET extra = b + 2 WHERE b > 5")
    wait_until_landed(mariadb, within=300)
    assert producer.stop() == 0
    assert run("replay", KEYS).code == 0
    assert differences(mariadb, run) == []
    assert landed_twice() == 0
    assert any(row["extra"] for row in run.query(KEYS))


def test_a_table_dropped_and_made_again_holds_the_new_rows_only(
    mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine
) -> None:
    Workload(mariadb, seed=SEED).run(100)
    producer = mariadb_producer.start()
    producer.wait_until_said(FOLLOWING)
    mariadb.sql(f"DROP TABLE {KEYS}")
    producer.wait_until_said("the table was dropped")
    mariadb.sql("CREATE TABLE shop.t_keys (b int, v text, w varchar(20), a varchar(10), PRIMARY KEY (b, a))")
    mariadb.sql("INSERT INTO shop.t_keys VALUES (1, 'v', 'w', 'a')")
    mariadb.sql(f"RENAME TABLE {KEYS} TO shop.kept")
    mariadb.sql("INSERT INTO shop.kept VALUES (2, 'v', 'w', 'a')", f"RENAME TABLE shop.kept TO {KEYS}")
    producer.wait_until_said("a table was renamed to or from this name")
    wait_until_landed(mariadb)
    assert [row["b"] for row in run.query(KEYS)] == [1], "what the view had, not the row that came under another name"
    mariadb.sql(f"UPDATE {KEYS} SET v = 'again'")
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    assert differences(mariadb, run) == []


@pytest.fixture
def replica(mariadb: MariaDb) -> Iterator[MariaDb]:
    """A second server that follows the first by GTID and writes what it applies into a binlog of its own."""
    with running(2) as server:
        server.sql(
            "STOP SLAVE",
            "DROP DATABASE shop",
            f"SET GLOBAL gtid_slave_pos = '{mariadb.gtid()}'",
            "RESET MASTER",
            f"CHANGE MASTER TO master_host = '127.0.0.1', master_port = {mariadb.port}, master_user = '{USER}', "
            f"master_password = '{PASSWORD}', master_use_gtid = slave_pos, master_ssl = 0, master_connect_retry = 1",
            "CREATE DATABASE IF NOT EXISTS shop",
            "RESET MASTER",
            f"SET GLOBAL gtid_slave_pos = '{mariadb.gtid()}'",
            "START SLAVE",
        )
        yield server


def caught_up(replica: MariaDb, primary: MariaDb) -> bool:
    return replica.sql("SELECT @@gtid_slave_pos") == [(primary.gtid(),)]


def test_a_replica_takes_over_and_nothing_is_lost_or_twice(
    mariadb: MariaDb, replica: MariaDb, run: CommandLine, tmp_path: Path
) -> None:
    mariadb.sql(*statements(DDL))
    project(tmp_path)
    hosts = f"127.0.0.1:{mariadb.port},127.0.0.1:{replica.port}"
    producer = Producer(tmp_path, {**mariadb.environment, "CDC_VIEWS_MARIADB_HOST": hosts}, ["mariadb"])
    workload = Workload(mariadb, seed=SEED)
    workload.run(300)
    producer.start().wait_until_said(FOLLOWING)
    with workload.running(pause=0.005):
        time.sleep(3)
    eventually(lambda: caught_up(replica, mariadb), within=60, what=str(replica.sql("SHOW SLAVE STATUS")))
    last = mariadb.gtid()
    mariadb.kill()
    try:
        replica.sql("STOP SLAVE", "RESET SLAVE ALL")
        producer.wait_until_said("MariaDB is away")
        taken_over = Workload(replica, seed=SEED + 1)
        with taken_over.running(pause=0.005):
            eventually(lambda: producer.log.read_text().count(FOLLOWING) > 1, within=60, what=producer.log.read_text())
            time.sleep(2)
            producer.kill()
            producer.start().wait_until_said(FOLLOWING)
            time.sleep(1)
        wait_until_landed(replica)
        assert producer.stop() == 0
        assert replica.gtid().startswith("0-2-")
        assert int(replica.gtid().split("-")[2]) > int(last.split("-")[2]) + 50
        assert differences(replica, run) == []
        assert landed_twice() == 0
    finally:
        if producer.is_alive:
            producer.kill()
        mariadb.start()


def test_a_server_that_lacks_what_landed_is_told_and_a_snapshot_mends_it(
    mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine
) -> None:
    Workload(mariadb, seed=SEED).run(100)
    producer = mariadb_producer.start()
    producer.wait_until_said(FOLLOWING)
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    # another id: what landed is another server's, and this one lacks it
    mariadb.sql("SET GLOBAL server_id = 77", "RESET MASTER", f"DELETE FROM {TYPES} WHERE id % 2 = 0")
    producer.start().wait_until_said("a replica that takes over gets there by itself")
    assert producer.get("/healthz")[0] == 503
    producer.kill()
    producer.start("--snapshot-again").wait_until_said(FOLLOWING)
    mariadb.sql(f"UPDATE {TYPES} SET t = 'goes on' WHERE id % 3 = 0")
    # positions have gone back, so that by them all has landed; as long as it has not, another start waits for a replica
    eventually(lambda: differences(mariadb, run) == [], within=40, every=0.5, what="the server's rows")
    producer.kill()
    producer.start().wait_until_said(FOLLOWING)
    mariadb.sql(f"UPDATE {TYPES} SET t = 'and on' WHERE id % 5 = 0")
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    assert differences(mariadb, run) == []


def test_a_log_begun_anew_is_told_however_far_it_has_counted(
    mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine
) -> None:
    Workload(mariadb, seed=SEED).run(50)
    producer = mariadb_producer.start()
    producer.wait_until_said(FOLLOWING)
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    mariadb.sql("FLUSH BINARY LOGS")
    producer.start().wait_until_said(FOLLOWING)
    mariadb.sql(f"REPLACE INTO {TYPES} (id) VALUES (150)")
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    reached = mariadb.gtid()
    mariadb.sql("RESET MASTER", f"DELETE FROM {TYPES} WHERE id = 150")
    assert "the server began its log anew" in ended(producer.start(), 3)
    counted = Workload(mariadb, seed=SEED + 1)
    while int(mariadb.gtid().split("-")[2]) <= int(reached.split("-")[2]):
        counted.run(50)
    assert "the server began its log anew" in ended(producer.start(), 3)
    mariadb.sql("FLUSH BINARY LOGS")  # a file of the same name as the one that landed
    assert "the server began its log anew" in ended(producer.start(), 3)
    producer.start("--snapshot-again").wait_until_said(FOLLOWING)
    eventually(lambda: differences(mariadb, run) == [], within=60, every=0.5, what="the server's rows")
    assert producer.stop() == 0
    producer.start().wait_until_said(FOLLOWING)
    mariadb.sql(f"UPDATE {TYPES} SET t = 'and on' WHERE id % 5 = 0", "FLUSH BINARY LOGS", f"DELETE FROM {TYPES} WHERE id = 5")
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    assert differences(mariadb, run) == []


def test_purged_binlog_is_told_and_a_snapshot_mends_it(mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine) -> None:
    Workload(mariadb, seed=SEED).run(50)
    mariadb.sql(f"REPLACE INTO {TYPES} (id) VALUES (150)")
    producer = mariadb_producer.start()
    producer.wait_until_said(FOLLOWING)
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    mariadb.sql(f"DELETE FROM {TYPES} WHERE id = 150", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    (file, *_), *_ = mariadb.sql("SHOW MASTER STATUS")
    eventually(lambda: purged(mariadb, file), within=20, what="the purge")
    said = ended(producer.start(), 3)
    assert "the server has purged binlog that has not landed" in said
    assert "--snapshot-again" in said
    assert differences(mariadb, run) != []
    producer.start("--snapshot-again").wait_until_said(FOLLOWING)
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    assert differences(mariadb, run) == []


def purged(server: MariaDb, file: str) -> bool:
    server.sql(f"PURGE BINARY LOGS TO '{file}'")
    return len(server.sql("SHOW BINARY LOGS")) == 1


def test_a_snapshot_that_was_killed_goes_on_where_it_was(mariadb: MariaDb, run: CommandLine, tmp_path: Path) -> None:
    ddl = "CREATE TABLE shop.large (id bigint PRIMARY KEY, v varchar(100), n int);\n"
    mariadb.sql(*statements(ddl))
    mariadb.sql("INSERT INTO shop.large SELECT cast(seq AS signed) - 5, concat('v', seq), seq FROM shop.seq_1_to_60000")
    (tmp_path / "schema.sql").write_text(ddl)
    table = {"name": "shop.large", "schema": "schema.sql", "raw": {"format": "debezium"}}
    (tmp_path / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [table]}))
    producer = Producer(tmp_path, mariadb.environment, ["mariadb"]).start()
    lander = Project.load(tmp_path / "cdc_views.yml").table("shop.large").stream("cdc_views_shop:0:snapshot")
    eventually(lander.position, within=60)
    producer.kill()
    mariadb.sql("DELETE FROM shop.large WHERE id % 3 = 0", "UPDATE shop.large SET n = -n WHERE id % 7 = 0")
    producer.start().wait_until_said("the rest of one that stopped")
    producer.wait_until_said(FOLLOWING, within=90)
    wait_until_landed(mariadb, "shop.large", within=90)
    rows = int(producer.metric("snapshot_rows_total"))
    assert producer.stop() == 0
    assert 0 < rows < 40_000
    found = {(row["id"], row["v"], row["n"]) for row in run.query("shop.large")}
    assert found == set(mariadb.sql("SELECT * FROM shop.large"))


@pytest.mark.parametrize(("image", "of_insert"), [("MINIMAL", (None, None)), ("NOBLOB", ("w", 6))])
def test_what_smaller_images_leave_out_keeps_its_value(
    image: str, of_insert: tuple[Any, Any], mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine
) -> None:
    mariadb.sql(f"SET GLOBAL binlog_row_image = '{image}'")
    try:
        # what such images do not tell: an INSERT's and a REPLACE's defaults (`w` has one), and virtual columns
        mariadb.sql("ALTER TABLE shop.t_keys ALTER COLUMN w DROP DEFAULT", "ALTER TABLE shop.t_types DROP COLUMN virt")
        workload = Workload(mariadb, seed=SEED, replaces=False)
        producer = mariadb_producer.start()
        producer.wait_until_said(f"binlog_row_image is {image}")
        with workload.running(pause=0.002):
            producer.wait_until_said(FOLLOWING)
            time.sleep(8)
        wait_until_landed(mariadb)
        assert workload.transactions > 200
        assert differences(mariadb, run) == []
        mariadb.sql("ALTER TABLE shop.t_keys ALTER COLUMN w SET DEFAULT 'w'", "INSERT INTO shop.t_keys (a, b) VALUES ('z', 900)")
        mariadb.sql("ALTER TABLE shop.t_types ADD COLUMN virt int AS (tiny * 3) VIRTUAL")
        mariadb.sql("INSERT INTO shop.t_types (id, tiny) VALUES (900, 2)")
        wait_until_landed(mariadb)
        assert producer.stop() == 0
        (keys,), (types,) = ([row for row in run.query(name) if 900 in row.values()] for name in (KEYS, TYPES))
        assert (keys["w"], types["virt"]) == of_insert
    finally:
        mariadb.sql("SET GLOBAL binlog_row_image = 'FULL'")


def test_server_and_target_go_away_and_come_back(mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine) -> None:
    Workload(mariadb, seed=SEED).run(100)
    producer = mariadb_producer.start()
    producer.wait_until_said(FOLLOWING)
    wait_until_landed(mariadb)
    raw = Path(raw_location(TYPES))
    raw.rename(f"{raw}-away")
    raw.write_text("in the way")
    Workload(mariadb, seed=SEED + 1).run(200)
    producer.wait_until_said("nothing is lost")
    assert producer.get("/healthz")[0] == 503
    raw.unlink()
    Path(f"{raw}-away").rename(raw)
    wait_until_landed(mariadb)
    assert eventually(lambda: producer.get("/healthz")[0] == 200)
    mariadb.stop()
    producer.wait_until_said("MariaDB is away")
    mariadb.start()
    Workload(mariadb, seed=SEED + 2).run(100)
    wait_until_landed(mariadb)
    mariadb.kill()
    mariadb.start()
    Workload(mariadb, seed=SEED + 3).run(100)
    wait_until_landed(mariadb)
    begun = time.monotonic()
    assert producer.stop() == 0
    assert time.monotonic() - begun < 6
    assert differences(mariadb, run) == []
    assert landed_twice() == 0


def test_rows_that_the_log_has_as_a_statement_are_not_passed_over(
    mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine, tmp_path: Path
) -> None:
    mariadb.sql(f"INSERT INTO {KEYS} VALUES ('a', 1, 'v', 'w')")
    producer = mariadb_producer.start()
    producer.wait_until_said(FOLLOWING)
    # what DDL changes in rows is not in the log either
    mariadb.sql(f"ALTER TABLE {KEYS} ADD COLUMN extra int DEFAULT 7, CHANGE COLUMN v v2 text")
    mariadb.sql("SET SESSION binlog_format = 'STATEMENT'", f"INSERT INTO {TYPES} (id) VALUES (1)")
    assert "the log has a statement in place of its rows" in ended(producer, 3)
    changed = DDL.replace("b int NOT NULL, v text", "b int NOT NULL, v2 text, extra int")
    (tmp_path / "schema.sql").write_text(changed)
    assert [(row["v2"], row["extra"]) for row in run.query(KEYS)] == [(None, None)]
    producer.start("--snapshot-again").wait_until_said(FOLLOWING)
    wait_until_landed(mariadb)
    # nor are date-times that the log has in the format of 5.5
    mariadb.sql("SET GLOBAL mysql56_temporal_format = OFF", f"ALTER TABLE {TYPES} MODIFY d0 datetime")
    mariadb.sql("SET GLOBAL mysql56_temporal_format = ON", f"UPDATE {TYPES} SET d0 = '2024-01-02 03:04:05'")
    assert "has a date-time in the format of version 5.5" in ended(producer, 2)
    mariadb.sql(f"ALTER TABLE {TYPES} FORCE")
    assert "FORCE, and start once with --snapshot-again" in ended(producer.start(), 2), "the log has it still"
    producer.start("--snapshot-again").wait_until_said(FOLLOWING)
    mariadb.sql(f"UPDATE {TYPES} SET d0 = '2025-01-02 03:04:05'")
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    assert differences(mariadb, run) == []


def test_xa_transactions_land_when_prepared_and_a_rollback_is_not_passed_over(
    mariadb_producer: Producer, mariadb: MariaDb, run: CommandLine
) -> None:
    def prepared(name: str, number: int, end: str) -> tuple[str, ...]:
        insert = f"INSERT INTO {TYPES} (id) VALUES ({number})"
        return f"XA START '{name}'", insert, f"XA END '{name}'", f"XA PREPARE '{name}'", f"XA {end} '{name}'"

    *begun, end = prepared("too early", 9, "COMMIT")
    mariadb.sql(*begun)
    producer = mariadb_producer.start()
    producer.wait_until_said(FOLLOWING)
    mariadb.sql(end, *prepared("a", 1, "COMMIT"))
    mariadb.sql("XA START 'b'", f"INSERT INTO {TYPES} (id) VALUES (2)", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
    wait_until_landed(mariadb)
    assert [PREPARED_BEFORE in one["message"] for one in producer.said].count(True) == 1, "not for those that it saw prepared"
    (lost,) = differences(mariadb, run)
    assert "('id', '9')" in lost, "neither the snapshot nor the log after it has the row"
    mariadb.sql(*prepared("c", 3, "ROLLBACK"))
    assert "was rolled back after its rows were in the log" in ended(producer, 3)
    producer.start("--snapshot-again").wait_until_said(FOLLOWING)
    wait_until_landed(mariadb)
    assert producer.stop() == 0
    assert differences(mariadb, run) == []


def test_compressed_events_of_a_server_with_tls_and_no_checksums(run: CommandLine, tmp_path: Path) -> None:
    settings = {"log-bin-compress": "1", "log-bin-compress-min-len": "10", "binlog-checksum": "NONE"}
    with tempfile.TemporaryDirectory(prefix="cdc-views-tls-") as name, ExitStack() as stack:
        certificate, key = self_signed(Path(name))
        for file in (certificate.parent, certificate, key):
            file.chmod(0o755)  # the server has an account of its own
        tls = {"ssl-ca": str(certificate), "ssl-cert": str(certificate), "ssl-key": str(key)}
        server = stack.enter_context(running(3, **settings, **tls, ssl="1"))
        server.sql(*statements(DDL), f"ALTER USER {USER}@'%' REQUIRE SSL")
        project(tmp_path)
        producer = Producer(tmp_path, server.environment, ["mariadb"])
        assert "MariaDB refuses this user" in ended(producer.start(), 2)
        producer.environment["CDC_VIEWS_MARIADB_TLS"] = "verify"
        assert "set CDC_VIEWS_MARIADB_TLS_CA" in ended(producer.start(), 2)
        producer.environment["CDC_VIEWS_MARIADB_TLS_CA"] = str(certificate)
        producer.start().wait_until_said(FOLLOWING)
        Workload(server, seed=SEED).run(300)
        wait_until_landed(server)
        assert producer.stop() == 0
        assert differences(server, run) == []
