"""Parts of the Cassandra agent that need neither a node nor Java: schemas, schema files, what comes after landing."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import fsspec
import pytest
from cdc_producers.cassandra import PRODUCER
from cdc_producers.cassandra import reader as reading
from cdc_producers.cassandra.following import Landmark
from cdc_producers.cassandra.lists import OldLists
from cdc_producers.cassandra.node import NodeFacts
from cdc_producers.cassandra.node_schema import NodeColumn, NodeDrop, NodeSchema, NodeTable, NodeType, schema_of, schema_of_text
from cdc_producers.cassandra.options import After, CassandraOptions, FollowSchema
from cdc_producers.cassandra.schema_file import changes, check, follow
from cdc_producers.cassandra.segments import AfterLanding, index_of, set_aside
from cdc_producers.cassandra.source import CassandraSource, _check_node, _Work
from cdc_producers.metrics import Health
from helpers.captured import Said

from cdc_views.errors import UsageError
from cdc_views.landing.targets import ProducerProject
from cdc_views.model.schema import TableSchema
from cdc_views.schemas import read_schema
from cdc_views.schemas.cql.reader import read_cql

CQL = """\
CREATE TYPE shop.addr (street text);
CREATE TABLE shop.orders (id int, line int, state text, ad frozen<addr>, st int static, PRIMARY KEY (id, line))
  WITH CLUSTERING ORDER BY (line DESC);
"""
ADDR = NodeType("shop", "addr", (("street", "text"),))
NODE = NodeTable(
    "shop",
    "orders",
    UUID(int=7),
    True,
    (
        NodeColumn("ad", "frozen<addr>"),
        NodeColumn("id", "int", "partition_key", 0),
        NodeColumn("line", "int", "clustering", 0, True),
        NodeColumn("st", "int", "static"),
        NodeColumn("state", "text"),
    ),
)
STATE_DROPPED = NodeDrop(NodeColumn("state", "text"), 1_700_000_000_000_000)


def project_table(text: str = CQL) -> TableSchema:
    return read_cql(text).table("shop.orders")


def without(table: NodeTable, name: str) -> NodeTable:
    return replace(table, columns=tuple(column for column in table.columns if column.name != name))


class Target:
    """A project's table by its schema file."""

    name, place = "shop.orders", "raw/a"

    def __init__(self, path: Path) -> None:
        self.schema_file = path

    @property
    def schema(self) -> TableSchema:
        return read_schema(self.schema_file, table=self.name)

    def version(self) -> object:
        return 0

    def follow(self) -> None:
        raise NotImplementedError

    def lander(self, stream: str) -> object:
        return SimpleNamespace(position=lambda: None)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    (tmp_path / "shop.cql").write_text(CQL)
    return Target(tmp_path / "shop.cql")


def test_the_nodes_schema_as_cql_is_the_nodes_schema() -> None:
    text = "\n".join([ADDR.cql, *replace(NODE, dropped=(STATE_DROPPED,)).cql])
    found = read_cql(text).table("shop.orders")
    assert set(found.columns) == set(project_table().columns)
    assert found.drop_time("state") == STATE_DROPPED.at
    assert "WITH ID = 00000000-0000-0000-0000-000000000007" in text


def test_types_are_made_before_those_that_use_them() -> None:
    outer = NodeType("shop", "a", (("in", 'frozen<list<"Z">>'),))
    inner = NodeType("shop", "Z", (("n", "int"),))
    names = [part.name for part in schema_of("1", [NODE], [outer, inner], ["shop"]).definitions]
    assert names == ["shop", '"shop"."Z"', '"shop"."a"', "shop.orders"]


def test_nothing_changes_where_file_and_node_agree(target: Target) -> None:
    assert changes(project_table(), NODE, [ADDR]) == []
    follow(target, NODE, [ADDR], mode=FollowSchema.APPEND, log=Said())  # type: ignore[arg-type]
    assert target.schema_file.read_text() == CQL


def test_an_added_a_dropped_and_a_readded_column_are_written_to_the_file(target: Target) -> None:
    log = Said()
    added = replace(NODE, columns=(*NODE.columns, NodeColumn("new", "map<text, int>")))
    follow(target, added, [ADDR], mode=FollowSchema.APPEND, log=log)  # type: ignore[arg-type]
    assert str(target.schema.column("new").type) == "map<text, int>"
    dropped = replace(without(added, "state"), dropped=(STATE_DROPPED,))
    follow(target, dropped, [ADDR], mode=FollowSchema.APPEND, log=log)  # type: ignore[arg-type]
    assert not target.schema.has("state")
    readded = replace(added, dropped=(replace(STATE_DROPPED, at=STATE_DROPPED.at + 5000),))
    follow(target, readded, [ADDR], mode=FollowSchema.APPEND, log=log)  # type: ignore[arg-type]
    assert target.schema.has("state")
    assert target.schema.drop_time("state") == STATE_DROPPED.at + 5000
    assert len(log.lines) == 3
    follow(target, readded, [ADDR], mode=FollowSchema.APPEND, log=log)  # type: ignore[arg-type]
    assert len(log.lines) == 3


def test_a_field_and_a_type_that_came_are_written_to_the_file(target: Target) -> None:
    wider = replace(ADDR, fields=(*ADDR.fields, ("Zip", "int")))
    point = NodeType("shop", "point", (("x", "int"),))
    node = replace(NODE, columns=(*NODE.columns, NodeColumn("at", "frozen<point>")))
    follow(target, node, [wider, point], mode=FollowSchema.APPEND, log=Said())  # type: ignore[arg-type]
    check(target.schema, node, [wider, point])
    assert target.schema.has("at")


@dataclass
class Agent:
    """An agent that has begun to follow a node, whose `cdc_raw` is the folder; nothing reads."""

    source: CassandraSource
    work: _Work
    log: Said


def begun(folder: Path, target: Target, *, holds: int = 0, **given: Any) -> Agent:
    log, schemas = Said(), SimpleNamespace(current=SimpleNamespace(table=lambda _: NODE), truncated={})
    schemas.facts = NodeFacts("host", "10.0.0.1", str(folder), holds, True, True, "5.0.9")
    targets: Any = {target.name: target}
    source = CassandraSource(targets, CassandraOptions(work_folder=folder / "work", **given), log, Health())
    source._work = work = source._begun(schemas, schemas.facts)  # type: ignore[arg-type]
    return Agent(source, work, log)


@pytest.mark.parametrize("mode", FollowSchema)
def test_an_agent_writes_the_file_or_tells_what_to_add(tmp_path: Path, target: Target, mode: FollowSchema) -> None:
    agent = begun(tmp_path, target, follow_schema=mode)
    added = replace(NODE, columns=(*NODE.columns, NodeColumn("new", "int")))
    assert agent.work._troubles(NodeSchema("2", {added.id: added}, (ADDR,))) == {}
    (said,) = agent.log.lines
    assert 'ALTER TABLE "shop"."orders" ADD "new" int;' in said
    assert said.startswith("warning") is (target.schema_file.read_text() == CQL) is (mode is FollowSchema.WARN)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (CQL.replace("line int", "line bigint"), "'line', clustering bigint DESC"),
        (CQL.replace("line DESC", "line ASC"), "'line', clustering int,"),
        (CQL.replace("st int static", "st int"), "'st', regular int,"),
        (
            CQL.replace("PRIMARY KEY (id, line))\n  WITH CLUSTERING ORDER BY (line DESC)", "PRIMARY KEY ((id, line)))").replace(
                " static", ""
            ),
            "'line'",
        ),
    ],
)
def test_another_key_or_type_is_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError) as refused:
        check(project_table(text), NODE, [ADDR])
    assert what in str(refused.value)


def test_a_described_keyspace_is_a_schema() -> None:
    text = "\n--\n".join([ADDR.cql, *NODE.cql, "CREATE INDEX i ON shop.orders (state);"])
    found = schema_of_text(text, "s.cql")
    assert found.table("shop.orders") == NodeTable("shop", "orders", UUID(int=7), True)
    assert [part.cql for part in found.definitions][1:] == [(ADDR.cql,), NODE.cql]
    with pytest.raises(UsageError, match="has no `WITH ID"):
        schema_of_text(CQL, "s.cql")


def segment(folder: Path, number: int) -> Path:
    path = folder / f"CommitLog-7-{number}.log"
    path.write_bytes(b"x" * 100)
    index_of(path).write_text("100\nCOMPLETED")
    return path


@pytest.mark.parametrize("after", After)
def test_an_agent_deletes_archives_or_keeps_a_landed_segment(tmp_path: Path, target: Target, after: After) -> None:
    path = segment(tmp_path, 1)
    archive = tmp_path / "archive" if after is After.ARCHIVE else ""
    agent = begun(tmp_path, target, after=after, archive=str(archive))
    landmark = Landmark(1, 100, True, path)
    agent.work._emitted.append(landmark)
    agent.source.keep_alive()
    assert path.exists(), "it has not landed"
    agent.source.landed(landmark)
    for _ in range(2):
        agent.source.keep_alive()
    assert path.exists() is index_of(path).exists() is (after is After.KEEP)
    assert (tmp_path / "archive/host" / path.name).exists() is (after is After.ARCHIVE)
    # what is gone a snapshot has to bring
    assert agent.source.options.of_snapshot.passes_over_logged is (after is After.KEEP)


def test_a_segment_is_deleted_once_the_archive_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, health, log = segment(tmp_path, 1), Health(), Said()
    made = AfterLanding(After.ARCHIVE, "memory://cdc?token=secret", "host", log, health, tmp_path / "work")
    made.add(path)
    files = fsspec.filesystem("memory")
    with monkeypatch.context() as patched:
        patched.setattr(type(files), "put_file", lambda *_, **__: (_ for _ in ()).throw(OSError("no route")))
        made.run()
        made.run()
    assert path.exists()
    assert "no route" in health.troubles["archive"]
    assert "secret" not in "".join(log.lines)
    assert len(log.lines) == 1
    made.run()
    assert (path.exists(), health.troubles) == (False, {})
    stored = [name for name in files.find("/") if "host" in name]
    assert sorted(name.rpartition("/")[2] for name in stored) == sorted([path.name, index_of(path).name])


def test_a_folder_that_is_nearly_full_is_told_once_and_when_it_is_well_again(tmp_path: Path) -> None:
    health, log = Health(), Said()
    made = AfterLanding(After.DELETE, "", "host", log, health, tmp_path / "work")
    path = segment(tmp_path, 1)
    made.watch(tmp_path, 143, 0.7)
    assert health.troubles == {}
    assert made.watch(tmp_path, 142, 0.7) == 100
    made.watch(tmp_path, 142, 0.7)
    assert "cdc_total_space" in health.troubles["cdc_raw"]
    path.unlink()
    made.watch(tmp_path, 120, 0.7)
    assert (health.troubles, len(log.lines)) == ({}, 2)


@pytest.mark.parametrize(("warns_at", "is_told"), [(0.5, True), (0.6, False)])
def test_an_agent_tells_that_the_folder_is_nearly_full(tmp_path: Path, target: Target, warns_at: float, is_told: bool) -> None:
    agent = begun(tmp_path, target, holds=200, warns_at=warns_at)
    segment(tmp_path, 1)
    OldLists(tmp_path / "work").tell(target.name, 5)
    agent.source.keep_alive()
    assert ("of cdc_total_space" in str(agent.source.health.troubles)) is is_told
    assert agent.source.lists.version == 1, "it sees what a snapshot alone has told of lists meanwhile"


def test_a_copy_is_kept_of_what_cannot_be_read(tmp_path: Path) -> None:
    kept = set_aside(segment(tmp_path, 1), tmp_path / "aside")
    assert kept.read_bytes() == b"x" * 100
    assert index_of(kept).exists()


def test_a_node_of_before_4_0_is_refused_by_its_version() -> None:
    facts = NodeFacts("host", "10.0.0.1", "", 0, True, True, "3.11.16")
    with pytest.raises(UsageError, match=r"is Cassandra 3\.11\.16: .* 4\.0 or newer was expected"):
        _check_node(facts, "127.0.0.1", Said())
    _check_node(replace(facts, version="4.0.15"), "127.0.0.1", Said())


@pytest.mark.parametrize(
    ("version", "table", "said"),
    [
        ("3.11.16", NodeTable("shop", "orders", UUID(int=7), True), r"4\.0 or newer was expected"),
        ("5.0.9", NodeTable("shop", "orders", UUID(int=7), False), "shop.orders has no CDC"),
        ("5.0.9", None, "shop.orders"),
    ],
)
def test_a_start_refuses_a_node_or_a_table_that_cannot_be_followed(
    tmp_path: Path, version: str, table: NodeTable | None, said: str
) -> None:
    targets: Any = {"shop.orders": SimpleNamespace(lander=lambda _: SimpleNamespace(position=lambda: None), place="raw/a")}
    log, schemas = Said(), SimpleNamespace(current=SimpleNamespace(table=lambda _: table))
    source = CassandraSource(targets, CassandraOptions(work_folder=tmp_path), log, Health())
    with pytest.raises(UsageError, match=said):
        source._begun(schemas, NodeFacts("host", "10.0.0.1", "", 0, True, False, version))  # type: ignore[arg-type]
    assert [line.split(" is false")[0] for line in log.lines] == ["warning: cdc_block_writes"] * (version == "5.0.9")


@pytest.mark.parametrize(("lacks", "setting"), [("blocks_writes", "cdc_block_writes"), ("logs_repair", "cdc_on_repair_enabled")])
def test_a_setting_by_which_the_log_may_lack_changes_is_warned_of(lacks: str, setting: str) -> None:
    log, facts = Said(), NodeFacts("host", "10.0.0.1", "", 0, True, True, "5.0.9")
    _check_node(facts, "127.0.0.1", log)
    assert log.lines == []
    _check_node(replace(facts, **{lacks: False}), "127.0.0.1", log)
    assert [line.split(" is false")[0] for line in log.lines] == [f"warning: {setting}"]


def test_without_the_nodes_jars_those_of_a_version_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    (tmp_path / "cassandra.jar").touch()
    monkeypatch.setattr("cdc_views_spark.ivy.fetched", lambda *given, finish: asked.append(given[0]) or tmp_path)
    monkeypatch.setattr(reading, "compiled", lambda jars: asked.append(jars) or tmp_path)
    monkeypatch.setattr(reading, "java", lambda: tmp_path / "no java")
    agent = reading.CommitLogReader(CassandraOptions(work_folder=tmp_path / "work", cassandra_version="4.1.8"), "host", Said())
    with pytest.raises(FileNotFoundError, match="no java"):
        agent.start()
    assert asked == [("org.apache.cassandra", "cassandra-all", "4.1.8"), [tmp_path / "cassandra.jar"]]
    monkeypatch.setitem(sys.modules, "cdc_views_spark.ivy", None)
    with pytest.raises(UsageError, match=r"pip install 'cdc-views\[spark\]'"):
        agent.start()


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"after": "burn"}, "--after is 'burn'; one of delete, archive, keep"),
        ({"after": "archive"}, "--archive URL"),
        ({"archive": "s3://x"}, "--archive URL"),
        ({"poll_seconds": 0.0}, "--poll"),
        ({"warns_at": 7.0}, "--warn-at"),
        ({"cassandra_lib": Path("/nowhere")}, "--cassandra-lib"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError) as refused:
        PRODUCER.chosen(ProducerProject(), given)
    assert what in str(refused.value)
