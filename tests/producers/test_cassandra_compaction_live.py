"""What Cassandra shows of two cells of one write time that expire early and late: compaction decides (the note at rule C4)."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("cassandra")

from cassandra.cluster import Session
from services.cassandra import CassandraCluster

pytestmark = pytest.mark.live
_SHORT, _LONG = 2, 20_000


def _write(session: Session, key: int, ttl: int) -> None:
    session.execute(f"UPDATE compacted.t USING TIMESTAMP 1000000 AND TTL {ttl} SET v = '{ttl}' WHERE k = {key}")


@pytest.mark.shares("cassandra_node")
def test_an_expired_cell_hides_a_later_expiry_once_it_was_compacted(cassandra_node: CassandraCluster) -> None:
    session, node = cassandra_node.session(), cassandra_node.nodes[0]
    session.execute("CREATE KEYSPACE compacted WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE compacted.t (k int PRIMARY KEY, v text)")
    for key in (1, 2):
        session.execute(f"INSERT INTO compacted.t (k) VALUES ({key})")
        _write(session, key, _SHORT)
    time.sleep(_SHORT + 1.5)
    node.tool("flush", "compacted")
    _write(session, 1, _LONG)
    assert session.execute("SELECT v FROM compacted.t WHERE k = 1").one() == (str(_LONG),), "as rule C2.4 says"
    node.tool("compact", "compacted")
    _write(session, 2, _LONG)
    assert sorted(session.execute("SELECT k, v FROM compacted.t")) == [(1, None), (2, None)], "as rule C2.3 says"
