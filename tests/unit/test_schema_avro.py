"""Avro schemas: every kind of type, and each way to declare the key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdc_views.errors import SchemaError, UnsupportedError
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, Udt
from cdc_views.schemas.avro import read_avro

ADDR = {"type": "record", "name": "Addr", "fields": [{"name": "street", "type": ["null", "string"]}]}
UDT = Udt("shop", "Addr", (("street", Scalar(Kind.TEXT)),))


def _record(*fields: dict[str, Any], **properties: Any) -> str:
    return json.dumps({"type": "record", "name": "t", "namespace": "com.acme.shop", "fields": fields, **properties})


def _column(written: Any) -> LogicalType:
    text = _record({"name": "k", "type": "long"}, {"name": "v", "type": written}, primaryKey=["k"])
    return read_avro(text).table("shop.t").column("v").type


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("boolean", Kind.BOOLEAN),
        ("int", Kind.INT),
        ("long", Kind.BIGINT),
        ("float", Kind.FLOAT),
        ("double", Kind.DOUBLE),
        ("bytes", Kind.BLOB),
        ("string", Kind.TEXT),
        ({"type": "string", "avro.java.string": "String"}, Kind.TEXT),
        ({"type": {"type": "string"}}, Kind.TEXT),
        (["null", "string"], Kind.TEXT),
        (["long", "null"], Kind.BIGINT),
        (["string"], Kind.TEXT),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, Kind.TEXT),
        ({"type": "fixed", "name": "F", "size": 4}, Kind.BLOB),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Kind.DECIMAL),
        ({"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9}, Kind.DECIMAL),
        ({"type": "int", "logicalType": "date"}, Kind.DATE),
        ({"type": "int", "logicalType": "time-millis"}, Kind.TIME),
        ({"type": "long", "logicalType": "time-micros"}, Kind.TIME),
        ({"type": "long", "logicalType": "timestamp-millis"}, Kind.INSTANT),
        ({"type": "long", "logicalType": "timestamp-micros"}, Kind.INSTANT),
        ({"type": "long", "logicalType": "timestamp-nanos"}, Kind.INSTANT),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, Kind.DATETIME),
        ({"type": "string", "logicalType": "uuid"}, Kind.UUID),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, Kind.UUID),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, Kind.DURATION),
        ({"type": "string", "logicalType": "of-our-own"}, Kind.TEXT),
        ({"type": "int", "logicalType": "uuid"}, Kind.INT),
        ({"type": "int", "connect.type": "int16"}, Kind.SMALLINT),
        ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, Kind.DATETIME),
        ({"type": "string", "connect.name": "io.debezium.data.Json"}, Kind.JSON),
    ],
)
def test_scalar_types(written: Any, expected: Kind) -> None:
    size = (written.get("scale", 0), written["precision"]) if expected is Kind.DECIMAL else ()
    assert _column(written) == Scalar(expected, *size)


def test_a_decimal_of_connects_converter_has_the_size_of_its_parameters() -> None:
    decimal = {"type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "4"}}
    sized = {**decimal, "connect.parameters": {"scale": "4", "connect.decimal.precision": "12"}}
    assert _column(sized) == Scalar(Kind.DECIMAL, 4, 12)
    assert _column({**sized, "logicalType": "decimal", "precision": 12, "scale": 4}) == Scalar(Kind.DECIMAL, 4, 12)
    assert _column({**decimal, "logicalType": "decimal", "precision": 12, "scale": 4}) == Scalar(Kind.DECIMAL, 4, 12)
    assert _column(decimal) == Scalar(Kind.DECIMAL, 4)
    assert _column({"type": "bytes", "logicalType": "big-decimal"}) == Scalar(Kind.DECIMAL)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"type": "array", "items": ["null", "int"]}, ListOf(Scalar(Kind.INT))),
        ({"type": "map", "values": "long"}, MapOf(Scalar(Kind.TEXT), Scalar(Kind.BIGINT))),
        (["null", ADDR], UDT),
        ({"type": "array", "items": {"type": "map", "values": ADDR}}, ListOf(MapOf(Scalar(Kind.TEXT), UDT))),
    ],
)
def test_nested_types_are_frozen(written: Any, expected: LogicalType) -> None:
    assert _column(written) == expected
    assert not _column(written).is_multicell


def test_a_named_type_is_known_where_it_is_used_again() -> None:
    text = _record(
        {"name": "k", "type": "long", "cdc_views.key": True},
        {"name": "a", "type": ADDR},
        {"name": "b", "type": "Addr"},
        {"name": "c", "type": ["null", "com.acme.shop.Addr"]},
    )
    table = read_avro(text).table("shop.t")
    assert [table.column(name).type for name in "abc"] == [UDT, UDT, UDT]


@pytest.mark.parametrize(
    ("properties", "marks", "expected"),
    [
        ({}, {"b"}, ["b", "a", "c"]),
        ({}, {"c", "a"}, ["a", "c", "b"]),
        ({"primaryKey": ["c", "a"]}, set(), ["c", "a", "b"]),
        ({"key": ["b"]}, set(), ["b", "a", "c"]),
        ({"cdc_views.key": ["b"]}, {"a"}, ["b", "a", "c"]),
    ],
)
def test_each_way_to_declare_the_key(properties: dict[str, Any], marks: set[str], expected: list[str]) -> None:
    fields = [{"name": n, "type": "int", **({"cdc_views.key": True} if n in marks else {})} for n in "abc"]
    assert [c.name for c in read_avro(_record(*fields, **properties)).table("shop.t").columns] == expected


def test_the_caller_can_name_the_key() -> None:
    table = read_avro(_record({"name": "a", "type": "int"}), key_columns=["a"]).table("shop.t")
    assert [c.name for c in table.partition] == ["a"]


def test_a_record_without_a_key_is_refused_with_the_ways_to_declare_it() -> None:
    with pytest.raises(SchemaError, match=r"o\.avsc: shop\.t: .*\"cdc_views\.key\": true.*\"primaryKey\""):
        read_avro(_record({"name": "a", "type": "int"}), where="o.avsc").table("shop.t")


def test_the_keyspace_is_the_namespace_unless_given_and_a_table_is_found_by_its_name() -> None:
    text = _record({"name": "a", "type": "int"}, key=["a"])
    assert read_avro(text).names == ("shop.t",)
    assert read_avro(text, keyspace="ks").names == ("ks.t",)
    assert read_avro(text, keyspace="ks").table("elsewhere.t").full_name == "elsewhere.t"


@pytest.mark.parametrize(
    ("written", "error", "expected"),
    [
        (["int", "string"], UnsupportedError, "union of several types"),
        ("strin", SchemaError, "unknown type 'strin'; did you mean 'string'"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, UnsupportedError, "contains itself"),
    ],
)
def test_types_that_are_no_column(written: Any, error: type[Exception], expected: str) -> None:
    with pytest.raises(error, match=expected):
        _column(written)


def test_what_is_not_json_is_placed() -> None:
    with pytest.raises(SchemaError, match=r"^o\.avsc:2:1: not JSON"):
        read_avro('{"type":\n}', where="o.avsc")


def test_a_debezium_envelope_has_the_columns_of_after() -> None:
    value = {"type": "record", "name": "Value", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": [
            "null", {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}]},
    ]}  # fmt: skip
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": "lab.public.orders",
        "connect.name": "lab.public.orders.Envelope",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
        ],
    }
    table = read_avro(json.dumps(envelope), key_columns=["id"]).table("lab.public.orders")
    assert {c.name: str(c.type) for c in table.columns} == {"id": "bigint", "at": "datetime"}
    assert table.full_name == "lab.public.orders"
