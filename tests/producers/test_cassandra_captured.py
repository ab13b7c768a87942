"""The Java part on segments captured from a real node: rows as lines, positions, corrupt bytes; and a view equal to SELECT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from cdc_producers.cassandra.columns import ColumnPlan
from cdc_producers.cassandra.node_schema import NodeSchema, schema_of_text
from cdc_producers.cassandra.options import CassandraOptions
from cdc_producers.cassandra.reader import Bad, CommitLogReader, ReadEvents
from cdc_producers.cassandra.segments import WHOLE
from helpers.captured import Said
from helpers.captured_cassandra import CAPTURED, copy, differences, log_of, project
from helpers.cassandra_tables import ORDERS, TYPED
from helpers.command_line import CommandLine
from helpers.producing import Producer, eventually

from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing.blocks import DecodedRows
from cdc_views.schemas.cql.reader import read_cql
from cdc_views.storage.relation import Relation

pytestmark = pytest.mark.heavy
SOME = 250_000
"""A position in the captured segment that is past the workload."""
TABLES = (ORDERS, TYPED, "shop.sales")


@pytest.fixture(scope="module")
def reader(lib: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommitLogReader]:
    """A running reader, without a schema."""
    made = CommitLogReader(CassandraOptions(cassandra_lib=lib, work_folder=tmp_path_factory.mktemp("work")), "10.0.0.1", Said())
    made.start()
    yield made
    made.close()


@pytest.fixture
def relations(capture: Path) -> list[Relation]:
    text = (capture / "schema.cql").read_text()
    return [Relation(read_cql(text).table(name)) for name in TABLES]


Take = Callable[..., NodeSchema]


@pytest.fixture
def take(reader: CommitLogReader, capture: Path) -> Take:
    """Gives the reader the captured schema."""

    def give(*tables: str, plans: list[ColumnPlan | None] | None = None) -> NodeSchema:
        schema = schema_of_text((capture / "schema.cql").read_text(), "schema.cql")
        ids = [table.id for name in tables or TABLES if (table := schema.table(name)) is not None]
        reader.take(schema, ids, plans=plans or ())
        return schema

    return give


def read(reader: CommitLogReader, log: Path, *, start: int = 0, limit: int = WHOLE, **more: bool) -> list[Any]:
    return list(reader.read(log, int(log.stem.split("-")[2]), start=start, limit=limit, **more))


def made(relation: Relation, item: ReadEvents) -> pa.Table:
    if isinstance(item.content, DecodedRows):
        item.content.table.validate(full=True)
        return item.content.table
    facts = CassandraMutation().decode(SourceLine(item.content.decode()), relation.schema)
    return relation.rows(facts, landed_at=0).drop_columns(["_landed_at"])


@pytest.mark.slow
def test_rows_are_what_the_lines_say(reader: CommitLogReader, take: Take, capture: Path, relations: list[Relation]) -> None:
    take(plans=[ColumnPlan(relation, "10.0.0.1") for relation in relations])
    by_lines, by_rows = [read(reader, log_of(capture, CAPTURED), limit=SOME, as_lines=is_so) for is_so in (True, False)]
    assert len(by_rows) * 20 < len(by_lines)
    for number, relation in enumerate(relations):
        lines, rows = [
            pa.concat_tables(made(relation, item) for item in found[:-1] if item.table == number) for found in (by_lines, by_rows)
        ]
        assert lines.num_rows > 100
        assert rows.schema == lines.schema
        # as texts: NaN is as good as NaN, and -0.0 is not 0.0
        assert list(map(repr, rows.to_pylist())) == list(map(repr, lines.to_pylist()))


def test_a_segment_is_read_in_parts_of_any_size(reader: CommitLogReader, take: Take, capture: Path) -> None:
    take()
    log = log_of(capture, CAPTURED)
    whole = read(reader, log)
    ends = sorted({item.position for item in whole[:-1]})
    cuts = [0, *ends[3::97], ends[-1]]
    parts = [item for a, b in pairwise(cuts) for item in read(reader, log, start=a, limit=b)[:-1]]
    assert parts == whole[:-1]
    assert len(parts) > 400


def test_a_table_that_is_in_no_schema_stops_it(reader: CommitLogReader, capture: Path) -> None:
    schema = schema_of_text((capture / "schema.cql").read_text(), "schema.cql")
    orders, typed, sales = (schema.table(name) for name in TABLES)
    assert orders is not None
    assert typed is not None
    assert sales is not None
    without = [part for part in schema.definitions if "sales" not in part.name]
    left = NodeSchema("1", {orders.id: orders, typed.id: typed}, (), tuple(without))
    reader.take(left, [orders.id, typed.id])
    *events, ended = read(reader, log_of(capture, CAPTURED))
    assert (ended.why, ended.table_id) == ("table", sales.id)
    assert events[-1].position <= ended.position < ended.at  # tables nobody asked for have mutations between
    reader.take(left, [orders.id, typed.id], passed_over=[sales.id])
    assert read(reader, log_of(capture, CAPTURED))[-1].why == ""


def test_a_mutation_whose_checksum_is_wrong_is_passed_over_when_asked(
    reader: CommitLogReader, take: Take, capture: Path, tmp_path: Path
) -> None:
    take()
    log = copy(log_of(capture, CAPTURED), tmp_path, 77)
    whole = read(reader, log)
    bad = whole[100]
    content = bytearray(log.read_bytes())
    content[bad.position - 10] ^= 1  # within its bytes: the last four are their checksum
    log.write_bytes(content)
    *events, ended = read(reader, log)
    assert ended.why == "corrupt"
    assert whole[99].position <= ended.position < bad.position
    assert events == whole[:100]
    found = read(reader, log, start=ended.position, limit=WHOLE, passes_over=True)
    assert [type(item) for item in found[:2]] == [Bad, ReadEvents]
    assert [item for item in found if isinstance(item, ReadEvents)] == whole[101:-1]
    content[30] ^= 1  # the header's checksum
    log.write_bytes(content)
    assert [item.why for item in read(reader, log, passes_over=True)] == ["corrupt"]


def test_a_mutation_of_an_older_schema_than_the_readers_is_whole(reader: CommitLogReader, capture: Path) -> None:
    text = (capture / "schema.cql").read_text()
    schema = schema_of_text(text.replace('"v" int, ', ""), "schema.cql")  # as before an ALTER … ADD v
    orders = schema.table(ORDERS)
    assert orders is not None
    reader.take(schema, [orders.id])
    ended = read(reader, log_of(capture, CAPTURED))[-1]
    assert (ended.why, "v" in ended.reason, len(ended.content) > 20) == ("mutation", True, True)


def test_a_reader_that_is_gone_says_so_and_starts_again(lib: Path, capture: Path, tmp_path: Path) -> None:
    from cdc_views.errors import TransientError

    single = CommitLogReader(CassandraOptions(cassandra_lib=lib, work_folder=tmp_path), "10.0.0.1", Said())
    single.start()
    assert single._process is not None
    single._process.kill()
    with pytest.raises(TransientError, match="is started again"):
        read(single, log_of(capture, CAPTURED))
    assert single._process is None


def test_the_views_equal_what_the_node_answered(run: CommandLine, lib: Path, capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cdc_raw"
    folder.mkdir()
    complete = copy(log_of(capture, CAPTURED), folder, 77)
    live = copy(log_of(capture, CAPTURED), folder, 78, is_complete=False)
    project(tmp_path, capture)
    given = ["--schema-file", str(capture / "schema.cql"), "--cdc-folder", str(folder), "--cassandra-lib", str(lib)]
    agent = Producer(tmp_path, {}, ["cassandra", *given]).start()
    try:
        agent.wait_until_said("following", within=120)
        eventually(lambda: agent.metric("last_position", table=ORDERS) == 78, within=60, what="landed")
        eventually(lambda: not complete.exists(), within=60, what="the complete segment deleted")
        assert agent.stop() == 0
    finally:
        if agent.is_alive:
            agent.kill()
    assert live.exists()
    assert differences(run, capture) == []
