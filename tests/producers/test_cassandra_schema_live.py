"""One real node, ALTERs that no log survives: CDC off and on, durable_writes, tables dropped and made again, fields renamed.

What one table needs never stops another; what cannot be known is said, and /healthz says so until it is mended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from helpers.cassandra_node_trial import CREATED, Trial
from helpers.command_line import CommandLine
from helpers.producing import Producer

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live
_TYPE = "CREATE TYPE {ks}.addr (street text, zip int)"


@pytest.fixture
def trial(cassandra_node: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Trial]:
    keyspace, node = f"sch{time.time_ns() % 10**9}", cassandra_node.nodes[0]
    session = cassandra_node.session()
    where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    made = Trial(session, keyspace, Producer(tmp_path, {}, ["cassandra", *where]), run, tmp_path)
    made.cql("CREATE KEYSPACE {ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", _TYPE)
    made.cql(*CREATED.values())
    texts = (_TYPE, *CREATED.values())
    (tmp_path / "schema.cql").write_text(";\n".join(text.replace("{ks}", keyspace) for text in texts) + ";\n")
    made.project()
    yield made
    if made.agent.is_alive:
        made.agent.kill()
    session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")


def _fill(trial: Trial, name: str, first: int, last: int, size: int = 20_000) -> None:
    for k in range(first, last):
        trial.session.execute(f"INSERT INTO {trial.keyspace}.{name} (k, v) VALUES (%s, %s)", (k, str(k % 10) * size))


def test_cdc_that_was_off_is_told_and_the_snapshot_is_taken_again(trial: Trial) -> None:
    trial.start()
    _fill(trial, "gap", 0, 5)
    _fill(trial, "other", 0, 5)
    trial.equals("gap", "other")
    trial.is_well()
    # while it runs
    trial.cql("ALTER TABLE {ks}.gap WITH cdc = false")
    trial.fails_by("has cdc = false")
    _fill(trial, "gap", 5, 105)
    trial.cql("DELETE FROM {ks}.gap WHERE k = 0")  # among many, so in a segment without an event
    _fill(trial, "gap", 105, 205)
    trial.cql("ALTER TABLE {ks}.gap WITH cdc = true")
    trial.fails_by("altered, and CDC")
    trial.is_well()
    trial.keeps("gap", '"k": 0')
    assert trial.agent.stop() == 0
    trial.raws["gap"] = "raw/gap2"
    trial.project()
    assert trial.run("rebuild", f"{trial.keyspace}.gap", "--accept").code == 0
    trial.start()
    trial.equals("gap")
    trial.cql("UPDATE {ks}.gap SET v = null WHERE k = 1")  # inserted before the gap, so it stays
    trial.equals("gap")
    # while it is stopped, and a kill in the middle
    assert trial.agent.stop() == 0
    trial.cql("ALTER TABLE {ks}.gap WITH cdc = false")
    _fill(trial, "gap", 205, 405)
    trial.cql("ALTER TABLE {ks}.gap WITH cdc = true")
    _fill(trial, "gap", 405, 410)
    trial.start()
    trial.agent.wait_until_said("gap was altered, and CDC or durable_writes may have been off")
    trial.agent.kill()
    trial.start()
    trial.equals("gap", "other")
    trial.is_well()
    # a column that comes while it looks is no gap
    trial.cql("ALTER TABLE {ks}.gap ADD w int", "INSERT INTO {ks}.gap (k, w) VALUES (1, 7)")
    trial.equals("gap")
    assert not trial.agent.has_said("gap: snapshot begins") or trial.health[0] == 200
    assert trial.agent.stop() == 0


def test_a_keyspace_without_durable_writes_is_refused_and_one_that_lost_them_is_told(trial: Trial) -> None:
    trial.cql("ALTER KEYSPACE {ks} WITH durable_writes = false")
    trial.agent.start()
    assert trial.agent.running is not None
    assert trial.agent.running.wait(120) == 2
    assert f"keyspace {trial.keyspace} has durable_writes = false" in trial.agent.log.read_text()
    trial.cql("ALTER KEYSPACE {ks} WITH durable_writes = true")
    trial.start()
    _fill(trial, "other", 0, 5)
    trial.equals("other")
    trial.cql("ALTER KEYSPACE {ks} WITH durable_writes = false")
    trial.fails_by("has durable_writes = false")
    _fill(trial, "other", 5, 10)
    trial.cql("ALTER KEYSPACE {ks} WITH durable_writes = true")
    _fill(trial, "other", 10, 12)
    trial.equals("other")
    trial.is_well()
    assert trial.agent.stop() == 0


def test_ddl_of_one_table_sets_that_table_aside_and_the_others_go_on(trial: Trial) -> None:
    trial.start()
    trial.cql("INSERT INTO {ks}.udt (k, fa) VALUES (1, {street: 'a', zip: 1})")
    _fill(trial, "gap", 0, 2, 1)
    _fill(trial, "other", 0, 2, 1)
    trial.equals("udt", "gap", "other")

    trial.cql("ALTER TYPE {ks}.addr RENAME zip TO zip2", "INSERT INTO {ks}.udt (k, fa) VALUES (2, {street: 'b', zip2: 2})")
    trial.fails_by("field 2 of user type")
    assert "'zip' int in the schema file and 'zip2' int in the node" in str(trial.health[1])
    _fill(trial, "other", 2, 4, 1)
    trial.equals("other")
    trial.agent.kill()  # what was kept outlives it
    trial.start()
    trial.fails_by("field 2 of user type")
    trial.cql("INSERT INTO {ks}.udt (k, fa) VALUES (3, {street: 'c', zip2: 3})")
    with (trial.folder / "schema.cql").open("a") as schema:
        schema.write(f"ALTER TYPE {trial.keyspace}.addr RENAME zip TO zip2;\n")
    trial.equals("udt")
    trial.is_well()

    trial.cql("DROP TABLE {ks}.gap")
    trial.fails_by(f"no table {trial.keyspace}.gap")
    _fill(trial, "other", 4, 6, 1)
    trial.equals("other", "udt")
    assert trial.agent.stop() == 0
    trial.start()  # a restart goes on, too
    trial.cql(CREATED["gap"], "INSERT INTO {ks}.gap (k, v) VALUES (9, 'latter')")
    trial.fails_by("gap was dropped and created again")
    _fill(trial, "other", 6, 8, 1)
    trial.equals("other")
    trial.raws["gap"] = "raw/gap2"
    trial.project()
    assert trial.run("rebuild", f"{trial.keyspace}.gap", "--accept").code == 0
    trial.equals("gap", "other", "udt")
    trial.is_well()
    assert trial.agent.metric("quarantined_total") == 0
    assert trial.agent.stop() == 0


def test_a_dropped_keyspace_is_told_and_its_agent_stays(trial: Trial) -> None:
    trial.start()
    _fill(trial, "other", 0, 2, 1)
    trial.equals("other")
    trial.cql("DROP TABLE {ks}.gap")
    trial.fails_by(f"no table {trial.keyspace}.gap")
    assert trial.agent.stop() == 0
    trial.tables = ("other", "udt")
    trial.project()
    trial.start()
    trial.is_well()
    trial.cql("DROP KEYSPACE {ks}")
    trial.fails_by(f"no table {trial.keyspace}.other")
    time.sleep(2)
    assert trial.agent.running is not None
    assert trial.agent.running.poll() is None
    assert trial.agent.stop() == 0
