"""Messages of topics as events: recorded ones of Debezium in JSON and in Avro, keys and values, and what is no message."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cdc_producers.kafka import PRODUCER
from cdc_producers.kafka.avro import codec
from cdc_producers.kafka.messages import LineWriter
from cdc_producers.kafka.options import Beginning, KafkaOptions, KeyFormat
from cdc_producers.kafka.registry import Registry
from cdc_producers.kafka.settings import connection
from cdc_producers.kafka.source import KafkaSource
from cdc_producers.kafka.topics import Positions, Topic, matched
from cdc_producers.source import LostError
from confluent_kafka import KafkaError
from confluent_kafka.schema_registry import Schema
from helpers.captured import Said
from helpers.debezium_cassandra_samples import SAMPLES, schema_of
from helpers.debezium_cassandra_samples import decode as from_cassandra
from helpers.kafka_avro import avro_schema, avro_value, framed
from helpers.kafka_sent import DATA, Sent, recorded, text
from helpers.kept_positions import Table
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.errors import MalformedEventError, UnsupportedError, UsageError
from cdc_views.formats.base import SourceLine, order_key
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.debezium_cassandra.format import DebeziumCassandra
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerProject
from cdc_views.model.schema import TableSchema
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.schemas import read_schema

USERS = "CREATE TABLE s.users (id text PRIMARY KEY, name text, age int);"
_DURATION = {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}


def users(tmp_path: Path) -> TableSchema:
    (tmp_path / "users.sql").write_text(USERS)
    return read_schema(tmp_path / "users.sql", table="s.users", keyspace="s")


def facts(line: bytes | None, table: str = "public.t_types", file: str = "postgres_schema.sql") -> list[Fact]:
    assert line is not None
    schema = read_schema(DATA / file, table=table, keyspace="public")
    return Debezium().decode(SourceLine(line.decode(), 0, 7), schema)


def read(line: bytes | None) -> str:
    """The facts as text, for NaN is not itself; or why there are none."""
    try:
        return repr(facts(line))
    except MalformedEventError as error:
        return str(error)


def of_table(event: dict[str, Any], table: str) -> bool:
    return bool(event["destination"] == f"lab.{table}")


class TestJson:
    @pytest.mark.parametrize("name", ["debezium_pg_default", "debezium_pg_schemas_enabled", "debezium_pg_ExtractNewRecordState"])
    def test_recorded_events_read_as_from_a_file(self, name: str) -> None:
        writer = LineWriter("lab.public.t_types", 3, 0, "debezium")
        count = 0
        for event in [event for event in recorded(name) if of_table(event, "public.t_types")]:
            found = read(writer.content(Sent(text(event["key"]), text(event["value"]))))
            same = {"key": event["key"], "value": event["value"], "topic": "lab.public.t_types", "partition": 3, "offset": 7}
            wanted = read(text({**same, "timestamp": 1_700_000_000_123}))
            assert found == wanted
            count += found.startswith("[Fact(")
        assert count > 5

    @pytest.mark.parametrize("name", ["insert", "update", "delete_row", "range_gt_le", "kv_insert"])
    def test_debeziums_events_of_cassandra_read_as_from_a_file(self, name: str) -> None:
        for event in SAMPLES[name]["debezium_events"]:
            key, value = (json.dumps(event[part], default=float).encode() for part in ("key", "value"))
            line = LineWriter("t", 3, 0, "debezium-cassandra").content(Sent(key, value)) or b""
            found = DebeziumCassandra().decode(SourceLine(line.decode(), 0, 7), schema_of(name))
            assert found == from_cassandra(event, schema_of(name)) != []

    def test_what_is_written_is_not_changed(self) -> None:
        value = b'{"a": 1.10, "b":  12345678901234567890123, "c": "\\u2603"}\n'
        line = LineWriter("t", 0, 0, "debezium").content(Sent(b'{"id": 1}', value))
        assert line == (
            b'{"topic":"t","partition":0,"offset":7,"timestamp":1700000000123,"key":{"id": 1},"value":' + value.strip() + b"}"
        )

    def test_a_mutation_is_its_value_and_a_tombstone_among_them_nothing(self) -> None:
        writer = LineWriter("t", 0, 0, "cassandra-mutation")
        assert writer.content(Sent(b"k", b'{"format": "x"}')) == b'{"format": "x"}'
        assert writer.content(Sent(b"k", None)) is None

    @pytest.mark.parametrize(
        ("key", "value", "reason"),
        [
            (b"1", b"", "no JSON object"),
            (b"1", b"[1]", "no JSON object"),
            (b"1", b"\xff\xfe\x00", "no UTF-8"),
            (b"\xff", b"{}", "its key is no UTF-8"),
            (b"1", b"\x00\x00\x00\x00\x09abc", "id 9 of a schema; give --registry"),
            (None, None, "missing or null"),
            (b"1", b'{"a":1},"value":{"b":2}', "occurs twice"),
            (b"1", b'{"a":1', "no JSON object"),
            (b"1", b'{"a":1}}', "not JSON"),
        ],
    )
    def test_what_is_no_message_says_so_and_keeps_its_bytes(
        self, key: bytes | None, value: bytes | None, reason: str, tmp_path: Path
    ) -> None:
        line = LineWriter("t", 0, 0, "key-value").content(Sent(key, value))
        assert line is not None
        with pytest.raises(MalformedEventError, match=reason):
            KeyValue().decode(SourceLine(line.decode(), 0, 7), users(tmp_path))
        if b"_problem" in line:
            assert base64.b64decode(json.loads(line)["value"]["base64_value"]) == value

    def test_a_tombstone_of_keys_and_values_deletes(self, tmp_path: Path) -> None:
        line = LineWriter("t", 0, 0, "key-value").content(Sent(b"u-1", None))
        (fact,) = KeyValue().decode(SourceLine((line or b"").decode(), 0, 7), users(tmp_path))
        assert fact.partition == ("u-1",)
        assert fact.deletion is not None
        assert fact.deletion.written == order_key(7)

    def test_a_topic_made_anew_orders_behind_the_one_before(self, tmp_path: Path) -> None:
        line = LineWriter("t", 0, 2, "key-value").content(Sent(b"u-1", None, at=0))
        (fact,) = KeyValue().decode(SourceLine((line or b"").decode(), 0, 0), users(tmp_path))
        assert fact.deletion is not None
        assert fact.deletion.written == order_key(0, epoch=2) > order_key(1 << 40)

    def test_text_keys_stay_text(self, tmp_path: Path) -> None:
        row = b'{"name": "x"}'
        for key, is_text, wanted in (
            (b"007", True, "007"),
            (b"null", True, "null"),
            (b'"q"', True, '"q"'),
            (b"007", False, "007"),
            (b'"q"', False, "q"),
        ):
            line = LineWriter("t", 0, 0, "key-value", has_text_keys=is_text).content(Sent(key, row))
            (fact,) = KeyValue().decode(SourceLine((line or b"").decode(), 0, 7), users(tmp_path))
            assert fact.partition == (wanted,)
        line = LineWriter("t", 0, 0, "key-value").content(Sent(b"null", row))
        with pytest.raises(MalformedEventError, match="missing or null"):
            KeyValue().decode(SourceLine((line or b"").decode(), 0, 7), users(tmp_path))

    def test_keys_are_text_where_the_option_says_so(self) -> None:
        for key_format in KeyFormat:
            target: Any = Table()
            target.format = KeyValue()
            source = KafkaSource({"s.t": target}, KafkaOptions(key_format=key_format), {}, Said())
            source._consumer = SimpleNamespace(get_watermark_offsets=lambda part, timeout: (0, 5))
            source._topics["t"] = topic = Topic("t", "s.t", id=9, partitions=1)
            source._positions.begin(topic, source._consumer)
            source._begin("t", 0)
            assert source._parts["t", 0].writer.has_text_keys is (key_format.value == "text")

    def test_a_key_that_moved_to_another_partition_may_show_an_older_value(self, tmp_path: Path) -> None:
        sent = [(0, Sent(b"u", b'{"age": 1}', at=7)), (1, Sent(b"u", b'{"age": 2}', at=3)), (1, Sent(b"u", b'{"age": 3}', at=8))]
        shown, found = list[Any](), list[Fact]()
        for partition, message in sent:
            line = LineWriter("t", partition, 0, "key-value").content(message) or b""
            found += KeyValue().decode(SourceLine(line.decode(), 0, message.offset()), users(tmp_path))
            shown += [row["age"] for row in latest_rows(users(tmp_path), found, now=0)]
        assert shown == [1, 1, 3]

    def test_a_deletion_of_a_topic_that_another_name_was_given_to_is_its_tables(self) -> None:
        line = LineWriter(None, 0, 0, "debezium").content(Sent(b'{"id": 1}', None))
        (fact,) = facts(line)
        assert fact.partition == (1,)


class TestAvro:
    def test_recorded_events_in_avro_are_the_facts_that_their_json_is(self) -> None:
        """Debezium 3.6's events with their Connect schemas, through Avro as Confluent's converter makes it."""
        schemas: dict[str, tuple[int, Any]] = {}
        known: dict[int, Any] = {}

        def encode(part: dict[str, Any] | None) -> bytes | None:
            if part is None or part["payload"] is None:
                return None
            named = json.dumps(part["schema"], default=float)
            if named not in schemas:
                schemas[named] = len(schemas), avro_schema(part["schema"])
                known[schemas[named][0]] = codec(schemas[named][1])
            number, schema = schemas[named]
            return framed(number, schema, avro_value(part["schema"], part["payload"]))

        def registered(part: bytes) -> str:
            return str(known[int.from_bytes(part[1:5], "big")].text(part[5:]))

        avro = LineWriter("lab.public.t_types", 3, 0, "debezium", registered)
        plain, count = LineWriter("lab.public.t_types", 3, 0, "debezium"), 0
        events = [event for event in recorded("debezium_pg_schemas_enabled") if of_table(event, "public.t_types")]
        for event in events:
            found = read(avro.content(Sent(encode(event["key"]), encode(event["value"]))))
            wanted = read(plain.content(Sent(text(event["key"]), text(event["value"]))))
            assert found == wanted
            count += found.startswith("[Fact(")
        assert count > 5
        # its schema says what values do not; what they do say is left out
        assert '"field":"after"' in known[1].declared
        assert len(known[1].declared) < 2000

    @pytest.mark.parametrize(
        ("schema", "value", "wanted"),
        [
            ("long", 2**63 - 1, "9223372036854775807"),
            ("string", "☃\n", '"☃\\n"'),
            (["null", "double"], float("nan"), '"NaN"'),
            ("float", 0.5, "0.5"),
            ({"type": "enum", "name": "e", "symbols": ["A"]}, "A", '"A"'),
            ({"type": "map", "values": ["null", "int"]}, {"a": None, "b": 2}, '{"a":null,"b":2}'),
            (["null", "string", "long"], 5, "5"),
            (_DURATION, b"\x01\0\0\0\x02\0\0\0\xe8\x03\0\0", '"P1M2DT1.000S"'),
        ],
    )  # fmt: skip
    def test_values_that_need_no_schema_have_none(self, schema: Any, value: Any, wanted: str) -> None:
        assert codec(schema).text(framed(1, schema, value)[5:]) == wanted

    @pytest.mark.parametrize(
        ("schema", "value", "name", "wanted"),
        [
            ({"type": "long", "logicalType": "timestamp-micros"}, 253402300800000000, "MicroTimestamp", "253402300800000000"),
            ({"type": "long", "logicalType": "local-timestamp-millis"}, -1, "Timestamp", "-1"),
            ({"type": "int", "logicalType": "time-millis"}, 1, "Time", "1"),
            ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, b"\x01\x00", "Decimal", '"AQA="'),
            ({"type": "bytes"}, b"\x00\xff", None, '"AP8="'),
        ],
    )
    def test_values_that_need_a_schema_have_connects(self, schema: Any, value: Any, name: str | None, wanted: str) -> None:
        found = json.loads(codec(schema).text(framed(1, schema, value)[5:]), parse_int=str)
        assert found["schema"].get("name", "").rpartition(".")[2] == (name or "")
        assert json.dumps(found["payload"]).strip('"') == wanted.strip('"')

    def test_bytes_that_are_no_value_of_the_schema_say_so(self) -> None:
        read = codec({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]})
        for data in (b"", b"\x02", b"\x02\x10ab", b"\x02\x02ab"):
            with pytest.raises(MalformedEventError, match="no value of its schema"):
                read.text(data)

    def test_a_union_that_values_do_not_tell_apart_is_refused(self) -> None:
        with pytest.raises(UnsupportedError, match="cannot be told apart"):
            codec(["null", "int", "long"])

    @pytest.mark.parametrize(
        ("kind", "schema", "reason"),
        [
            ("PROTOBUF", "message User {}", "is PROTOBUF; AVRO or JSON was expected"),
            ("AVRO", '["null", "other.User"]', "'other.User' is not defined; schemas with references cannot be read yet"),
            ("AVRO", '["null", "int", "long"]', "cannot be told apart"),
        ],
    )
    def test_a_schema_that_cannot_be_read_sends_its_messages_to_quarantine(
        self, kind: str, schema: str, reason: str, tmp_path: Path
    ) -> None:
        registry = Registry("http://127.0.0.1:1")
        registry._client = SimpleNamespace(get_schema=lambda number: Schema(schema, kind))
        writer = LineWriter("t", 0, 0, "key-value", registry.read)
        line = (writer.content(Sent(b"u-1", b"\0\0\0\0\x09abc")) or b"").decode()
        with pytest.raises(MalformedEventError, match=f"schema 9.*{reason}"):
            KeyValue().decode(SourceLine(line, 0, 7), users(tmp_path))

    def test_a_record_that_contains_itself_is_read(self) -> None:
        schema = {
            "type": "record",
            "name": "n",
            "fields": [{"name": "v", "type": "bytes"}, {"name": "next", "type": ["null", "n"]}],
        }
        value = {"v": b"a", "next": {"v": b"b", "next": None}}
        assert json.loads(codec(schema).text(framed(1, schema, value)[5:]))["payload"]["next"]["v"] == "Yg=="

    @given(st.recursive(st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(), lambda inner: st.lists(inner, max_size=3)))
    def test_bytes_of_another_schema_never_crash(self, value: Any) -> None:
        data = json.dumps(value).encode()
        schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "string", "double"]}]}
        with contextlib.suppress(MalformedEventError):
            json.loads(codec(schema).text(data))


class TestTopics:
    def test_a_table_without_a_topic_has_the_one_that_ends_in_its_name(self) -> None:
        existing = ["lab.public.orders", "public.users", "xpublic.orders", "other"]
        assert matched(["public.orders", "public.users", "public.none"], {}, existing) == {
            "lab.public.orders": "public.orders",
            "public.users": "public.users",
        }

    def test_a_topic_somebody_named_counts_even_where_it_does_not_exist(self) -> None:
        assert matched(["s.t"], {"a": "s.t", "b": "s.t"}, ["x.s.t"]) == {"a": "s.t", "b": "s.t"}

    def test_what_the_command_line_names_goes_before_what_the_project_file_names(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = list[Any]()
        monkeypatch.setattr("cdc_producers.runtime.Runtime", lambda source, *_: SimpleNamespace(run=lambda: found.append(source)))
        targets = [SimpleNamespace(name=name) for name in ("s.t", "s.u", "s.v")]
        project = SimpleNamespace(topics={"s.t": ["b"], "s.u": ["c", "d"]})
        order: Any = SimpleNamespace(targets=targets, project=project, log=Said())
        PRODUCER.run(order, KafkaOptions(topic=("a=s.t",)))
        assert [source.topics for source in found] == [{"a": "s.t", "c": "s.u", "d": "s.u"}]
        with pytest.raises(UsageError, match="TOPIC=TABLE was expected"):
            PRODUCER.run(order, KafkaOptions(topic=("a=s.w",)))

    def test_a_partition_that_comes_later_is_read_from_its_beginning(self) -> None:
        targets: Any = {"s.t": Table()}
        positions = Positions(targets, KafkaOptions(begins=Beginning.LATEST), Said())
        consumer: Any = SimpleNamespace(get_watermark_offsets=lambda part, timeout: (0, 5))
        positions.begin(Topic("t", "s.t", id=9, partitions=1), consumer)
        grown = Topic("t", "s.t", id=9, partitions=2)
        assert [positions.next_offset(grown, number, consumer) for number in (0, 1)] == [5, 0]

    def test_a_gap_is_accepted_once_even_where_nothing_lands_behind_it(self) -> None:
        targets: Any = {"s.t": Table()}
        topic = Topic("t", "s.t", id=9, partitions=1)
        consumer: Any = SimpleNamespace(get_watermark_offsets=lambda part, timeout: (4, 4))

        def next_offset(**options: Any) -> int:
            positions = Positions(targets, KafkaOptions(**options), Said())
            positions.begin(topic, consumer)
            return positions.next_offset(topic, 0, consumer)

        targets["s.t"].kept["kafka:t/0"] = Position(1)
        with pytest.raises(LostError, match="messages 2 to 3 have not landed"):
            next_offset()
        assert [next_offset(accepts_gap=True), next_offset()] == [4, 4]

    def test_what_retention_deletes_while_it_is_read_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = list[dict[str, Any]]()
        consumer: Any = SimpleNamespace(
            list_topics=lambda timeout: SimpleNamespace(topics={}), get_watermark_offsets=lambda part, timeout: (4, 9)
        )
        monkeypatch.setattr("cdc_producers.kafka.source.client", lambda make, given: settings.append(given) or consumer)
        targets: Any = {"s.t": Table()}
        source = KafkaSource(targets, KafkaOptions(bootstrap="b:1"), {}, Said())
        source._connect()
        assert settings[-1]["auto.offset.reset"] == "error", "the client skips nothing by itself"
        source._topics["t"] = topic = Topic("t", "s.t", id=9, partitions=1)
        source._positions.begin(topic, consumer)
        targets["s.t"].kept["kafka:t/0"] = Position(1)
        with pytest.raises(LostError, match="messages 2 to 3 have not landed"):
            source._fail(KafkaError(KafkaError._AUTO_OFFSET_RESET), "t", 0)

    def test_several_that_fit_are_asked_about(self) -> None:
        with pytest.raises(UsageError, match=r"may be fed by any of a\.s\.t, b\.s\.t; say which: --topic TOPIC=s\.t"):
            matched(["s.t"], {}, ["a.s.t", "b.s.t"])


class TestSettings:
    def test_every_variable_of_the_prefix_is_a_setting(self) -> None:
        found = connection(
            environment={"CDC_VIEWS_KAFKA_BOOTSTRAP_SERVERS": "b:1", "CDC_VIEWS_KAFKA_SASL_PASSWORD": "x", "PATH": "/"}
        )
        assert (found["bootstrap.servers"], found["sasl.password"]) == ("b:1", "x")
        assert "path" not in found

    def test_no_broker_or_one_of_ours_is_refused(self) -> None:
        with pytest.raises(UsageError, match="no broker is named"):
            connection(environment={})
        with pytest.raises(UsageError, match="CDC_VIEWS_KAFKA_ISOLATION_LEVEL cannot be set"):
            connection("b:1", environment={"CDC_VIEWS_KAFKA_ISOLATION_LEVEL": "read_uncommitted"})

    def test_the_registry_has_its_address_and_password_of_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = list[dict[str, Any]]()
        monkeypatch.setattr("cdc_producers.kafka.registry.SchemaRegistryClient", given.append)
        assert Registry.of("") is None
        monkeypatch.setenv("CDC_VIEWS_SCHEMA_REGISTRY_URL", "http://r:1")
        monkeypatch.setenv("CDC_VIEWS_SCHEMA_REGISTRY_AUTH", "u:p")
        assert [Registry.of(""), Registry.of("http://other:2")]
        assert [(one["url"], one["basic.auth.user.info"]) for one in given] == [("http://r:1", "u:p"), ("http://other:2", "u:p")]

    @pytest.mark.parametrize("bad", [{"begins": "now"}, {"key_format": "json"}, {"group": ""}, {"heartbeat_seconds": 0}])
    def test_options_that_cannot_be_are_refused(self, bad: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            PRODUCER.chosen(ProducerProject(), bad)
