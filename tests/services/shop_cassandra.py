"""What three Cassandra nodes log of a shop's carts: `PYTHONPATH=tests python -m services.shop_cassandra FOLDER`.

Writes the schema, a file of mutations a node, and what Cassandra answered. The third node is killed halfway: it lacks the later
half.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import Session
from cassandra.query import SimpleStatement
from cdc_producers.cassandra.node_schema import NodeSchema, schema_of_text
from cdc_producers.cassandra.options import CassandraOptions
from cdc_producers.cassandra.reader import CommitLogReader, ReadEvents
from cdc_producers.cassandra.segments import segments_in

from cdc_views.cli.log import log
from services.cassandra import Node, running

KEYSPACE = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
TABLE = """CREATE TABLE shop.carts (
  customer text,
  item     text,
  coupon   text STATIC,
  quantity int,
  price    decimal,
  tags     set<text>,
  PRIMARY KEY (customer, item)
)"""
ALL_UP = (
    "INSERT INTO shop.carts (customer, item, quantity, price, tags) VALUES ('ada', 'book', 1, 12.50, {'gift'})",
    "INSERT INTO shop.carts (customer, item, quantity, price) VALUES ('ada', 'pen', 3, 1.20)",
    "UPDATE shop.carts USING TTL 3600 SET coupon = 'WELCOME' WHERE customer = 'ada'",
    "INSERT INTO shop.carts (customer, item, quantity, price) VALUES ('grace', 'lamp', 1, 40.00)",
    "INSERT INTO shop.carts (customer, item, quantity, price) VALUES ('grace', 'mug', 6, 7.00)",
)
TWO_UP = (
    "UPDATE shop.carts SET price = 11.00 WHERE customer = 'ada' AND item = 'book'",
    "UPDATE shop.carts SET tags = tags + {'sale'} WHERE customer = 'ada' AND item = 'book'",
    "UPDATE shop.carts SET tags = tags - {'gift'} WHERE customer = 'ada' AND item = 'book'",
    "UPDATE shop.carts USING TIMESTAMP 1900000000000000 SET quantity = 2 WHERE customer = 'ada' AND item = 'book'",
    "UPDATE shop.carts USING TIMESTAMP 1900000000000000 SET quantity = 4 WHERE customer = 'ada' AND item = 'book'",
    "DELETE FROM shop.carts WHERE customer = 'ada' AND item = 'pen'",
    "DELETE FROM shop.carts WHERE customer = 'grace' AND item > 'k' AND item < 'n'",
    "INSERT INTO shop.carts (customer, item, quantity) VALUES ('grace', 'lamp', 2)",
)
_NOTICED = 20.0
"""Seconds after which the other nodes know that one is dead."""
_SYNCED = 3.0
"""Seconds after which a node has written its log to disk."""


def capture(folder: Path) -> None:
    """Run the statements, and write what the nodes logged."""
    folder.mkdir(parents=True, exist_ok=True)
    with running(3, hinted_handoff_enabled=False) as cluster:
        session = cluster.session(consistency=ConsistencyLevel.QUORUM)
        session.execute(KEYSPACE)
        session.execute(TABLE + " WITH cdc = true")
        for statement in ALL_UP:
            session.execute(SimpleStatement(statement, consistency_level=ConsistencyLevel.ALL))
        time.sleep(_SYNCED)
        cluster.kill(2)
        time.sleep(_NOTICED)
        for statement in TWO_UP:
            session.execute(statement)
        rows = [one[0] for one in session.execute("SELECT JSON * FROM shop.carts")]
        print(f"asked at {int(time.time())}")
        time.sleep(_SYNCED)
        schema = described(session)
        for node in cluster.nodes:
            lines = logged(node, schema, folder)
            (folder / f"node{node.index + 1}.jsonl").write_text("".join(line + "\n" for line in lines), "utf-8")
    (folder / "schema.cql").write_text(TABLE + ";\n", "utf-8")
    (folder / "answer.jsonl").write_text("".join(row + "\n" for row in rows), "utf-8")


def described(session: Session) -> NodeSchema:
    """The keyspace's schema, with the ids of its tables, and of all others, which the log has too."""
    found: Any = session.execute("DESCRIBE KEYSPACE shop WITH INTERNALS")
    others: Any = session.execute("SELECT keyspace_name, id FROM system_schema.tables")
    known = "".join(f"-- known: {one.id}\n" for one in others if one.keyspace_name != "shop")
    return schema_of_text(known + "\n".join(row.create_statement for row in found), "the capture")


def logged(node: Node, schema: NodeSchema, folder: Path) -> list[str]:
    """The mutations of a node's log, one JSON object each."""
    reader = CommitLogReader(
        CassandraOptions(cassandra_lib=node.lib, work_folder=folder / f"reader{node.index}"), node.address, log
    )
    reader.start()
    table = schema.table("shop.carts")
    assert table is not None
    reader.take(schema, [table.id])
    found = []
    for segment in segments_in(node.cdc_raw):
        for one in reader.read(segment.log, segment.id, start=0, limit=2**31 - 1, as_lines=True):
            if isinstance(one, ReadEvents):
                assert isinstance(one.content, bytes)
                found.append(one.content.decode())
            else:
                print(node.address, one)
    reader.close()
    return found


if __name__ == "__main__":
    capture(Path(sys.argv[1]))
