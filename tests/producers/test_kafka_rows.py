"""Rows that are published read back as they were: recorded events of PostgreSQL, through JSON and through Avro."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from cdc_producers.kafka import publishing, transactions
from cdc_producers.kafka.messages import LineWriter
from cdc_producers.kafka.registry import Registry
from cdc_producers.kafka.rows import JsonEncoder, Record, writer
from cdc_producers.kafka.rows_avro import AvroEncoder
from cdc_producers.kafka.transactions import Publisher, Publishers
from helpers.captured import Said
from helpers.kafka_sent import Sent, recorded, text
from services.registry import running

from cdc_views.errors import MalformedEventError, TransientError, UnsupportedError, UsageError
from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.debezium_cassandra.format import DebeziumCassandra
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.landing import Position, StreamEvent
from cdc_views.landing.targets import Destination, ProducerOrder
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, TupleOf, Udt
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.schemas import read_schema

DATA = Path(__file__).parents[1] / "data" / "debezium"
SCHEMA: TableSchema = read_schema(DATA / "postgres_schema.sql", table="public.t_types", keyspace="public")
TOPIC = "public.t_types"


def events() -> list[str]:
    """The recorded events of one table as lines, in their order; those after a column was renamed left out."""
    found = []
    for event in recorded("debezium_pg_default"):
        if (
            event["destination"] == "lab.public.t_types"
            and event["value"] is not None
            and "vc2" not in json.dumps(event, default=str)
        ):
            found.append((text({"key": event["key"], "value": event["value"]}) or b"").decode())
    return [event for event in found if '"op": "t"' not in event and '"op": "m"' not in event]


def through(records: list[Record], lines: LineWriter) -> list[Fact]:
    """What a consumer of the topic makes of it."""
    facts: list[Fact] = []
    for offset, record in enumerate(records):
        line = lines.content(Sent(record.key, record.value, at=offset))
        facts += KeyValue().decode(SourceLine((line or b"").decode(), 0, offset), SCHEMA)
    return facts


def published(encoder: Any) -> list[Record]:
    write = writer(Debezium(), SCHEMA, encoder)
    return [record for event in events() for record in write(SourceLine(event))]


def rows(facts: list[Fact]) -> str:
    return repr(sorted(latest_rows(SCHEMA, facts, now=0), key=repr))


def source_rows() -> str:
    return rows([fact for event in events() for fact in Debezium().decode(SourceLine(event), SCHEMA)])


def test_recorded_rows_read_back_from_json() -> None:
    found = published(JsonEncoder(SCHEMA))
    assert rows(through(found, LineWriter(TOPIC, 0, 0, "key-value"))) == source_rows()
    assert any(record.value is None for record in found)
    assert len(found) == 8
    # the comparison can fail
    assert rows(through(found[:-3], LineWriter(TOPIC, 0, 0, "key-value"))) != source_rows()


def test_recorded_rows_read_back_from_avro() -> None:
    with running() as service:
        registry = Registry(service.address)
        found = published(AvroEncoder(SCHEMA, TOPIC, registry))
        lines = LineWriter(TOPIC, 0, 0, "key-value", Registry(service.address).read)
        assert rows(through(found, lines)) == source_rows()
        assert sorted(service.subjects) == [f"{TOPIC}-key", f"{TOPIC}-value"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Scalar(Kind.DECIMAL), Decimal("1E+3")),
        (Scalar(Kind.DECIMAL), Decimal("-0.000000001")),
        (Scalar(Kind.DECIMAL, 2), Decimal("-1.50")),
        (Scalar(Kind.VARINT), -(1 << 63)),
        (Scalar(Kind.BIGINT), (1 << 63) - 1),
        (Scalar(Kind.DOUBLE), float("-inf")),
        (Scalar(Kind.DOUBLE), -0.0),
        (Scalar(Kind.FLOAT), 0.10000000149011612),
        (Scalar(Kind.JSON), '{"a": 1.10}'),
        (Scalar(Kind.JSON), '"x"'),
        (Scalar(Kind.TEXT), 'a"\n\u2603\\'),
        (Scalar(Kind.BLOB), b""),
        (Scalar(Kind.BLOB), b"\x00\xff"),
        (Scalar(Kind.DATE), -719162),
        (Scalar(Kind.TIME), 1_000),
        (Scalar(Kind.TIME), -3_020_399_000_000_000),
        (Scalar(Kind.DATETIME), 253402300799999999),
        (Scalar(Kind.DATETIME), -1),
        (Scalar(Kind.DATETIME), 9223372036825200000),
        (Scalar(Kind.INSTANT), -9223372036825200000),
        (Scalar(Kind.INSTANT), 1),
        (Scalar(Kind.TIMESTAMP), 1),
        (Scalar(Kind.DURATION), (14, 3, 5)),
        (Scalar(Kind.DURATION), (0, 0, 0)),
        (Scalar(Kind.INET), "10.0.0.1"),
        (ListOf(Scalar(Kind.INT)), (1, None, 3)),
        (ListOf(Scalar(Kind.TEXT)), ()),
        (MapOf(Scalar(Kind.TEXT), Scalar(Kind.INT)), (("a", 1),)),
        (MapOf(Scalar(Kind.INT), Scalar(Kind.TEXT)), ((1, "a"), (2, "b"))),
        (TupleOf((Scalar(Kind.INT), Scalar(Kind.TEXT))), (1, None)),
        (Udt("shop", "u", (("a", Scalar(Kind.INT)), ("b", Scalar(Kind.TEXT)))), (1, None)),
    ],
)
def test_values_read_back_exactly(kind: Any, value: Any) -> None:
    column = Column("v", kind)
    schema = replace(SCHEMA, columns=(SCHEMA.columns[0], column))
    with running() as service:
        registry = Registry(service.address)
        encoders: list[Any] = [JsonEncoder(schema)]
        if not isinstance(kind, TupleOf | Udt) and not (isinstance(kind, MapOf) and kind.key != Scalar(Kind.TEXT)):
            encoders.append(AvroEncoder(schema, TOPIC, registry))
        for encoder in encoders:
            lines = LineWriter(TOPIC, 0, 0, "key-value", registry.read)
            line = lines.content(Sent(encoder.key([1]), encoder.row({"id": 1, "v": value})))
            (fact,) = KeyValue().decode(SourceLine((line or b"").decode(), 0, 7), schema)
            assert repr(fact.cells["v"].value) == repr(value), encoder
            line = lines.content(Sent(encoder.key([1]), encoder.row({"id": 1, "v": None})))
            (fact,) = KeyValue().decode(SourceLine((line or b"").decode(), 0, 7), schema)
            assert fact.cells["v"].deleted_at is not None


def test_a_large_value_that_was_left_as_it_was_is_absent() -> None:
    names = {"t": Kind.TEXT, "j": Kind.JSON, "b": Kind.BLOB}
    columns = [SCHEMA.columns[0], *[Column(name, Scalar(kind)) for name, kind in names.items()]]
    schema = replace(SCHEMA, columns=(*columns, Column("l", ListOf(Scalar(Kind.TEXT)))))
    with running() as service:
        registry = Registry(service.address)
        assert JsonEncoder(schema).row({"id": 1}) == b'{"id":1}'
        assert AvroEncoder(schema, TOPIC, registry).row({"id": 1}).count(b"__debezium_unavailable_value") == 4
        for encoder in (JsonEncoder(schema), AvroEncoder(schema, TOPIC, registry)):
            line = LineWriter(TOPIC, 0, 0, "key-value", registry.read).content(Sent(encoder.key([1]), encoder.row({"id": 1})))
            (fact,) = KeyValue().decode(SourceLine((line or b"").decode(), 0, 7), schema)
            assert dict(fact.cells) == {}


def test_what_no_record_can_say_is_refused() -> None:
    write = writer(Debezium(), SCHEMA, JsonEncoder(SCHEMA))
    source = {"connector": "postgresql", "lsn": 1, "db": "lab", "schema": "public", "table": "t_types"}
    with pytest.raises(MalformedEventError, match="a truncation names no keys"):
        write(SourceLine(json.dumps({"op": "t", "source": source})))
    with pytest.raises(UnsupportedError, match="no whole rows"):
        writer(DebeziumCassandra(), SCHEMA, JsonEncoder(SCHEMA))


def test_a_mutation_is_published_as_it_is_under_its_partition() -> None:
    write = writer(CassandraMutation(), SCHEMA, JsonEncoder(SCHEMA))
    event = '{"format": "cassandra-mutation/1", "partition": {"b": 1.10, "a": "☃"}, "rows": []}'
    assert write(SourceLine(event)) == [Record('{"a": "☃", "b": "1.10"}'.encode(), event.encode())]
    with pytest.raises(MalformedEventError, match="no partition key"):
        write(SourceLine("{}"))


def test_a_schema_that_does_not_fit_its_earlier_versions_is_refused() -> None:
    wider = replace(SCHEMA, columns=(*SCHEMA.columns, Column("added", Scalar(Kind.INT))))
    other = replace(SCHEMA, columns=tuple(replace(c, type=Scalar(Kind.BLOB)) if c.name == "t" else c for c in SCHEMA.columns[:9]))
    with running() as service:
        registry = Registry(service.address)
        for schema in (SCHEMA, wider, SCHEMA):
            AvroEncoder(schema, TOPIC, registry)
        columns = tuple(replace(c, type=Scalar(Kind.BOOLEAN)) if c.name == "big" else c for c in other.columns)
        table: Any = SimpleNamespace(name=TOPIC, format=Debezium(), schema=replace(other, columns=columns), version=lambda: 1)
        publisher: Any = SimpleNamespace(position=lambda name: None, create=lambda *_, **__: None)
        lander = publishing.TopicTarget(table, TOPIC, Publishers(publisher), registry).lander("s")
        with pytest.raises(UsageError, match=f"the schema of {TOPIC}-value does not fit its earlier versions"):
            lander.land([StreamEvent(Position(1), b"{}")], through=Position(1), now=datetime.now(timezone.utc))


def test_a_name_or_type_that_avro_has_not_is_refused() -> None:
    number = Scalar(Kind.INT)
    types: list[LogicalType] = [TupleOf((number,)), MapOf(number, number), Udt("shop", "u", (("a", number),))]
    for column in (Column("a-b", number), *(Column("p", kind) for kind in types)):
        with running() as service, pytest.raises(UnsupportedError, match="--output-format json"):
            AvroEncoder(replace(SCHEMA, columns=(SCHEMA.columns[0], column)), TOPIC, Registry(service.address))


def test_topics_of_rows_are_compacted_and_those_of_mutations_are_not() -> None:
    made: list[str] = []
    publisher: Any = SimpleNamespace(create=lambda topic, cleanup_policy="": made.append(cleanup_policy))
    for format in (Debezium(), KeyValue(), CassandraMutation()):
        table: Any = SimpleNamespace(format=format, schema=SCHEMA, version=lambda: 1)
        publishing.TopicTarget(table, TOPIC, Publishers(publisher), None).write(publisher)
    assert made == ["compact", "compact", "delete"]


def test_mutations_are_not_published_as_avro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_VIEWS_SCHEMA_REGISTRY_URL", "http://127.0.0.1:1")
    target: Any = SimpleNamespace(name="shop.orders", format=CassandraMutation())
    to = Destination("kafka://127.0.0.1:1", output_format="avro", by_stream=True)
    with pytest.raises(UsageError, match="are mutations, which are published as JSON alone"):
        publishing.published(ProducerOrder([target], Said(), Event(), to=to))


def test_producers_of_the_same_tables_have_one_name_and_end_each_other() -> None:
    def identity(*names: str, prefix: str = "") -> str:
        targets: Any = [SimpleNamespace(name=name, format=KeyValue()) for name in names]
        to = Destination("kafka://127.0.0.1:1", topic_prefix=prefix)
        made: Any = publishing.published(ProducerOrder(targets, Said(), Event(), to=to)).targets[0]
        return str(made.publishers.common.identity)

    assert identity("s.a", "s.b") == identity("s.b", "s.a")
    assert len({identity("s.a", "s.b"), identity("s.a"), identity("s.a", "s.b", prefix="out")}) == 3


def test_what_was_published_is_not_published_again() -> None:
    sent: list[Any] = []
    publisher: Any = SimpleNamespace(
        position=lambda name: Position(1, 2),
        create=lambda *_, **__: None,
        commit=lambda name, through, messages, **_: sent.append((through, [message.value for message in messages])),
    )
    table: Any = SimpleNamespace(name=TOPIC, format=CassandraMutation(), schema=SCHEMA, version=lambda: 1)
    lander = publishing.TopicTarget(table, TOPIC, Publishers(publisher), None).lander("s")
    contents = [b'{"partition": {"id": %d}}' % number for number in range(4)]
    places = [Position(1, 1), Position(1, 2), Position(1, 3), Position(2, 1)]
    given = list(map(StreamEvent, places, contents))
    for events_given, through in ((given, places[3]), (given[:2], places[1])):
        assert lander.land(events_given, through=through, now=datetime.now(timezone.utc)).skipped == 2
    assert sent == [(places[3], contents[2:])]


def test_streams_of_other_agents_have_publishers_of_their_own() -> None:
    common = Publisher({}, "offsets", "cdc_views_1", Said())
    many, second, one = (Publishers(common, by_stream=is_so) for is_so in (True, True, False))
    assert many.of("cassandra:a") is many.of("cassandra:a")
    assert many.of("cassandra:a").identity == second.of("cassandra:a").identity
    assert len({many.of(stream).identity for stream in ("cassandra:a", "cassandra:b", "snapshot:a")}) == 3
    assert {one.of(stream).identity for stream in ("a", "b")} == {"cdc_views_1"}


def test_a_transaction_that_stays_open_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = SimpleNamespace(assign=lambda _: None, poll=lambda _: None, close=lambda: None, init_transactions=lambda _: None)
    made = {"client": lambda *_: reader, "watermarks": lambda *_: (0, 5), "_READS_WITHIN": 0.01}
    for name, one in made.items():
        monkeypatch.setattr(transactions, name, one)
    publisher = Publisher({}, "offsets", "one", Said(), _topics={"offsets"})
    with pytest.raises(TransientError, match=r"a transaction is open in it; .*find-hanging` names it and `abort` ends"):
        publisher.position("s")
