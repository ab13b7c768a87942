"""`key-value`, and the registry of raw formats."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.errors import ConfigError, MalformedEventError
from cdc_views.formats.base import SourceLine, Verdict, order_key
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.formats.registry import format_names, raw_format
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, MapOf, Scalar, SetOf
from cdc_views.rules.cells import Deletion, Liveness
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows
from cdc_views.storage.relation import Relation

INT, TEXT = Scalar(Kind.INT), Scalar(Kind.TEXT)
T = TableSchema("shop", "t", (Column("id", INT, Role.PARTITION), Column("name", TEXT), Column("n", Scalar(Kind.BIGINT))))
WIDE = TableSchema(
    "shop",
    "w",
    (
        Column("id", INT, Role.PARTITION),
        Column("by", Scalar(Kind.BLOB)),
        Column("at", Scalar(Kind.DATETIME)),
        Column("day", Scalar(Kind.DATE)),
        Column("tags", SetOf(TEXT, frozen=False)),
        Column("items", ListOf(INT, frozen=False)),
        Column("m", MapOf(TEXT, INT, frozen=False)),
        Column("j", Scalar(Kind.JSON)),
        Column("ints", ListOf(INT)),
    ),
)


def decode(key: Any, value: Any, *, schema: TableSchema = T, line: int = 1, **rest: Any) -> list[Fact]:
    return KeyValue().decode(SourceLine(json.dumps({"key": key, "value": value, **rest}), line), schema)


def rows(*events: list[Fact], schema: TableSchema = T) -> list[dict[str, Any]]:
    return latest_rows(schema, [fact for event in events for fact in event], now=0)


def test_the_later_offset_wins_whatever_the_line() -> None:
    later = decode({"id": 1}, {"id": 1, "name": "b", "n": 1 << 53}, offset=8, line=1)
    earlier = decode({"id": 1}, {"id": 1, "name": "a", "n": 1}, offset=7, line=2)
    assert rows(later, earlier) == [{"id": 1, "name": "b", "n": 1 << 53}]
    assert later[0].liveness == Liveness(order_key(8))


def test_without_offsets_the_later_line_wins() -> None:
    assert rows(decode({"id": 1}, {"name": "b"}, line=2), decode({"id": 1}, {"name": "a"}, line=1))[0]["name"] == "b"


def test_a_null_value_deletes_the_row_until_it_is_written_again() -> None:
    written, gone, again = (decode(1, value, offset=n) for n, value in enumerate([{"name": "a"}, None, {"n": 1}]))
    assert rows(written, gone) == []
    assert rows(again, gone, written) == [{"id": 1, "name": None, "n": 1}]


def test_a_null_column_is_null_and_a_row_of_nulls_is_a_row() -> None:
    assert rows(decode({"id": 1}, {"id": 1, "name": "a"}, offset=1), decode({"id": 1}, {"id": 1, "name": None}, offset=2)) == [
        {"id": 1, "name": None, "n": None}
    ]


def test_a_deletions_server_time_is_kafkas() -> None:
    (fact,) = decode({"id": 1}, None, offset=1, timestamp=1795251454123)
    assert fact.deletion == Deletion(order_key(1), 1795251454)
    (fact,) = decode({"id": 1}, None, offset=1)
    assert fact.deletion == Deletion(order_key(1), 0)


def test_unions_of_avros_json_are_opened() -> None:
    at = {"year": 2024, "month": 1, "day": 2, "hour": 3, "minute": 4, "second": 5, "micro": 6}
    value = {
        "id": {"int": 5},
        "by": {"bytes": "\u00de\u00ad"},
        "at": {"com.martinkl.bottledwater.datatypes.DateTime": at},
        "day": {"com.martinkl.bottledwater.datatypes.Date": {"year": 1970, "month": 1, "day": 2}},
        "ints": {"array": [{"int": 1}, None, {"int": 2}]},
        "j": {"string": '{"a": 1}'},
    }  # fmt: skip
    (row,) = rows(decode({"id": {"int": 5}}, {"shop.w": value}, schema=WIDE), schema=WIDE)
    assert (row["id"], row["by"], row["day"], row["ints"], row["j"]) == (5, b"\xde\xad", 1, (1, None, 2), '{"a": 1}')
    assert row["at"] == 1704164645000006


def test_a_column_of_objects_is_not_taken_for_a_union() -> None:
    (row,) = rows(decode(1, {"m": {"int": 5}, "j": {"string": "x"}}, schema=WIDE), schema=WIDE)
    assert (row["m"], row["j"]) == ((("int", 5),), '{"string":"x"}')


def test_a_collection_is_replaced_whole() -> None:
    first = decode(1, {"tags": ["a", "b"], "items": [1, 2, 3], "m": {"x": 1}}, schema=WIDE, offset=1)
    second = decode(1, {"tags": ["c"], "items": [9, 8], "m": None}, schema=WIDE, offset=2)
    (row,) = rows(second, first, schema=WIDE)
    assert (row["tags"], row["items"], row["m"]) == (("c",), (9, 8), None)


def test_an_envelope_declares_what_numbers_count() -> None:
    schema = {"type": "struct", "fields": [{"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"}]}
    (row,) = rows(decode(1, {"schema": schema, "payload": {"at": 7}}, schema=WIDE), schema=WIDE)
    assert row["at"] == 7


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "{}", '{"key":1}', '{"value":{}}', '{"key":null,"value":{}}', '{"key":1,"value":3}',
        '{"key":1,"value":"x"}',
        '{"key":1,"value":{"nam":"x"}}', '{"key":1,"value":{},"offset":-1}', '{"key":1,"value":{},"offset":"x"}',
        '{"key":1,"value":{"n":"x"}}', '{"key":{"ident":1},"value":null}', '{"key":"x","value":{}}', '{"key":[1],"value":{}}',
        '{"key":1,"value":{"n":1e999999999}}', '{"key":1,"value":{"n":{"int":{}}}}', '{"key":1,"value":null,"timestamp":[]}',
    ],
)  # fmt: skip
def test_malformed_events(text: str) -> None:
    with pytest.raises(MalformedEventError):
        KeyValue().decode(SourceLine(text), T)


ROW = st.fixed_dictionaries({}, optional={"name": st.none() | st.text("ab"), "n": st.integers(0, 3)})
EVENTS = st.lists(st.tuples(st.integers(0, 2), st.none() | ROW), max_size=6)


@given(EVENTS, st.randoms(use_true_random=False))
def test_any_order_and_any_repetition_give_the_same_rows(events: list[tuple[int, Any]], at: Any) -> None:
    facts = [decode(key, value, offset=n) for n, (key, value) in enumerate(events)]
    mixed = facts + facts[: len(facts) // 2]
    at.shuffle(mixed)
    assert rows(*mixed) == rows(*facts)


def test_fidelity_has_one_verdict_a_column_after_those_of_rows() -> None:
    found = KeyValue().fidelity(WIDE)
    assert [f.column for f in found if f.column != "*"] == [c.name for c in WIDE.columns]
    assert found[0].verdict is Verdict.EXACT_IF


def test_formats_are_found_by_name() -> None:
    assert format_names() == ("cassandra-mutation", "debezium", "debezium-cassandra", "key-value")
    assert all(raw_format(name).name == name for name in format_names())
    written = {name: str(Relation(T, raw_format(name).order).written) for name in format_names()}
    assert written == {
        "cassandra-mutation": "int64", "debezium-cassandra": "int64",
        "debezium": "decimal128(38, 0)", "key-value": "decimal128(38, 0)",
    }  # fmt: skip


def test_an_unknown_format_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="'debezium-casandra'; did you mean 'debezium-cassandra'"):
        raw_format("debezium-casandra")
