"""Lists of a real node after a snapshot: what comes late, what is set or removed, and what was written as a whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cassandra")

from helpers.cassandra_node_trial import Trial
from helpers.command_line import CommandLine
from helpers.producing import Producer

if TYPE_CHECKING:
    from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live
_TABLE = "CREATE TABLE {ks}.lst (p text, c int, st list<int> static, l list<int>, m map<text, int>, PRIMARY KEY (p, c))"


@pytest.fixture
def lists(cassandra_node: CassandraCluster, run: CommandLine, tmp_path: Path) -> Iterator[Trial]:
    """A table without CDC, whose lists were built in different ways."""
    keyspace, node = f"lst{time.time_ns() % 10**9}", cassandra_node.nodes[0]
    where = ["--host", node.address, "--port", str(node.port), "--cassandra-lib", str(node.lib)]
    made = Trial(
        cassandra_node.session(), keyspace, Producer(tmp_path, {}, ["cassandra", *where]), run, tmp_path, tables=("lst",)
    )
    made.cql("CREATE KEYSPACE {ks} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}", _TABLE)
    for c in range(1, 9):
        made.cql(f"UPDATE {{ks}}.lst SET l = l + [1], m = m + {{'a': 1}} WHERE p = 'it''s \"p\"' AND c = {c}",
                 f"UPDATE {{ks}}.lst SET l = l + [2, 3] WHERE p = 'it''s \"p\"' AND c = {c}")  # fmt: skip
    made.cql("UPDATE {ks}.lst SET st = st + [1, 2] WHERE p = 'it''s \"p\"'", "ALTER TABLE {ks}.lst WITH cdc = true")
    (tmp_path / "schema.cql").write_text(_TABLE.replace("{ks}", keyspace) + ";\n")
    made.project()
    yield made
    if made.agent.is_alive:
        made.agent.kill()
    made.cql("DROP KEYSPACE {ks}")


def test_lists_of_a_snapshot_are_the_nodes_whatever_comes_after(lists: Trial) -> None:
    lists.start("--snapshot-consistency", "ONE")
    lists.equals("lst")
    hour_ago = time.time_ns() // 1000 - 3_600_000_000
    row = "WHERE p = 'it''s \"p\"' AND c"
    lists.cql(
        f"UPDATE {{ks}}.lst USING TIMESTAMP {hour_ago} SET l = l + [9], m = m + {{'b': 9}} {row} = 1",  # late
        f"INSERT INTO {{ks}}.lst (p, c, l) VALUES ('it''s \"p\"', 2, [8, 9]) USING TIMESTAMP {hour_ago}",  # late, as a whole
        f"UPDATE {{ks}}.lst SET l[1] = 7 {row} = 3",  # an old one set
        f"UPDATE {{ks}}.lst SET l = l - [2] {row} = 4",  # an old one removed
        f"UPDATE {{ks}}.lst SET l = [4, 5] {row} = 5",  # as a whole
        f"UPDATE {{ks}}.lst SET l = [0] + l {row} = 6",
        f"UPDATE {{ks}}.lst SET l = l + [4] {row} = 6",
        f"DELETE l FROM {{ks}}.lst {row} = 7",
        f"DELETE FROM {{ks}}.lst {row} = 8",
        "DELETE st[0] FROM {ks}.lst WHERE p = 'it''s \"p\"'",
    )
    lists.agent.wait_until_said("were read again", within=60)
    lists.equals("lst")
    # what was read again is no end of it; and a kill before it is
    lists.cql(
        f"UPDATE {{ks}}.lst USING TIMESTAMP {hour_ago + 5} SET l = l + [10] {row} = 1",
        f"DELETE l[0] FROM {{ks}}.lst {row} = 3",
        f"UPDATE {{ks}}.lst SET l = l + [11] {row} = 4",
        f"DELETE FROM {{ks}}.lst USING TIMESTAMP {hour_ago + 10} {row} = 1",
    )
    time.sleep(4)
    lists.agent.kill()
    lists.start("--snapshot-consistency", "ONE")
    lists.agent.wait_until_said("were read again", within=60)
    lists.equals("lst")
    lists.is_well()
    assert lists.agent.metric("quarantined_total") == 0
    assert lists.agent.stop() == 0
