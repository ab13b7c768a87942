"""Where an agent keeps what it remembers: in the warehouse, or where an earlier version had it, never with another node."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cdc_producers.cassandra import PRODUCER
from cdc_producers.cassandra.node import NodeFacts
from cdc_producers.cassandra.node_schema import NodeSchema
from cdc_producers.cassandra.schemas import Schemas
from helpers.captured import Said

from cdc_views.cli.producing import facts_of
from cdc_views.errors import UsageError

HOST = {"host": "10.0.0.1"}
EARLIER, NOW = ".cdc-views/cassandra-10.0.0.1-9042", "warehouse/cassandra/10.0.0.1-9042"


def chosen(folder: Path, *, warehouse: str = "./warehouse", **given: Any) -> Path:
    """What the command chooses for the project that it loads."""
    tables = [{"name": "shop.orders", "schema": "shop.cql", "raw": {"format": "cassandra-mutation"}}]
    file = folder / "cdc_views.yml"
    file.write_text(json.dumps({"name": "shop", "engine": "duckdb", "warehouse": warehouse, "tables": tables}))
    found: Path = PRODUCER.chosen(facts_of(file), HOST | given).work_folder
    return found


def test_it_is_in_the_warehouse(tmp_path: Path) -> None:
    assert chosen(tmp_path) == tmp_path / NOW
    assert chosen(tmp_path, host="::1", port=9) == tmp_path / "warehouse/cassandra/__1-9"
    assert chosen(tmp_path, warehouse="s3://shop/warehouse") == tmp_path / EARLIER, "Java works on this machine's disks alone"


def test_an_earlier_one_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / EARLIER).mkdir(parents=True)
    assert chosen(tmp_path) == tmp_path / EARLIER
    assert chosen(tmp_path, host="10.0.0.2") == tmp_path / "warehouse/cassandra/10.0.0.2-9042"
    (tmp_path / NOW).mkdir(parents=True)
    with pytest.raises(UsageError, match=r"two work folders.*--work-folder DIR") as told:
        chosen(tmp_path)
    assert all(str(tmp_path / place) in str(told.value) for place in (EARLIER, NOW))
    for place in (EARLIER, NOW):
        assert chosen(tmp_path, work_folder=tmp_path / place) == tmp_path / place


def opened(folder: Path, host_id: str) -> NodeFacts:
    """What an agent of this node does first; each calls its node 127.0.0.1."""
    facts = NodeFacts(host_id, "127.0.0.1", "", 0, has_cdc=True, blocks_writes=True)
    node: Any = SimpleNamespace(facts=lambda: facts, truncated=dict, schema=lambda _: NodeSchema("v", {}, (), ()))
    return Schemas(node, frozenset(), folder, None, Said()).open()


def test_agents_of_two_nodes_do_not_share_one(tmp_path: Path) -> None:
    for _ in range(2):
        assert opened(tmp_path / "work", "node-a").host_id == "node-a"
    with pytest.raises(UsageError, match=r"is the work folder of node node-a, and this agent's node is node-b; .*--work-folder"):
        opened(tmp_path / "work", "node-b")
    assert opened(tmp_path / "other", "node-b").host_id == "node-b"
    assert opened(tmp_path / "work", "node-a").host_id == "node-a"
