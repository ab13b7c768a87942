"""Kafka Connect schemas, as Debezium's events embed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_views.errors import SchemaError
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, Udt
from cdc_views.schemas.connect import read_connect

SCHEMAS = Path(__file__).parent.parent / "data" / "schemas"
CONNECT = "org.apache.kafka.connect.data."


def _struct(*fields: dict[str, Any], name: str = "", field: str = "") -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "name": name, "field": field}


def _column(written: dict[str, Any]) -> LogicalType:
    value = _struct({"type": "int32", "field": "k"}, {**written, "field": "v"}, name="lab.shop.t.Value")
    return read_connect(json.dumps(value), key_columns=["k"]).table("shop.t").column("v").type


@pytest.mark.parametrize(
    ("plain", "name", "expected"),
    [
        ("int8", "", Kind.TINYINT),
        ("int16", "", Kind.SMALLINT),
        ("int32", "", Kind.INT),
        ("int64", "", Kind.BIGINT),
        ("float", "", Kind.FLOAT),
        ("float32", "", Kind.FLOAT),
        ("double", "", Kind.DOUBLE),
        ("boolean", "", Kind.BOOLEAN),
        ("string", "", Kind.TEXT),
        ("bytes", "", Kind.BLOB),
        ("bytes", f"{CONNECT}Decimal", Kind.DECIMAL),
        ("int32", f"{CONNECT}Date", Kind.DATE),
        ("int32", f"{CONNECT}Time", Kind.TIME),
        ("int64", f"{CONNECT}Timestamp", Kind.DATETIME),
        ("int32", "io.debezium.time.Date", Kind.DATE),
        ("int32", "io.debezium.time.Time", Kind.TIME),
        ("int64", "io.debezium.time.MicroTime", Kind.TIME),
        ("int64", "io.debezium.time.NanoTime", Kind.TIME),
        ("int64", "io.debezium.time.Timestamp", Kind.DATETIME),
        ("int64", "io.debezium.time.MicroTimestamp", Kind.DATETIME),
        ("int64", "io.debezium.time.NanoTimestamp", Kind.DATETIME),
        ("string", "io.debezium.time.ZonedTimestamp", Kind.INSTANT),
        ("string", "io.debezium.time.ZonedTime", Kind.TEXT),
        ("string", "io.debezium.time.IsoTimestamp", Kind.DATETIME),
        ("int64", "io.debezium.time.MicroDuration", Kind.BIGINT),
        ("int32", "io.debezium.time.Year", Kind.INT),
        ("string", "io.debezium.data.Json", Kind.JSON),
        ("string", "io.debezium.data.Uuid", Kind.UUID),
        ("string", "io.debezium.data.Enum", Kind.TEXT),
        ("string", "io.debezium.data.EnumSet", Kind.TEXT),
        ("bytes", "io.debezium.data.Bits", Kind.BLOB),
        ("struct", "io.debezium.data.VariableScaleDecimal", Kind.DECIMAL),
        ("struct", "io.debezium.data.geometry.Point", Kind.BLOB),
        ("string", "com.acme.Unknown", Kind.TEXT),
    ],
)
def test_scalar_types(plain: str, name: str, expected: Kind) -> None:
    assert _column({"type": plain, "name": name, "version": 1, "parameters": {"scale": "2"}}) == Scalar(
        expected, 2 if name == f"{CONNECT}Decimal" else None
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"type": "array", "items": {"type": "int32", "optional": True}}, ListOf(Scalar(Kind.INT))),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}}, MapOf(Scalar(Kind.TEXT), Scalar(Kind.BIGINT))),
        (_struct({"type": "string", "field": "x"}, name="ks.addr"), Udt("ks", "addr", (("x", Scalar(Kind.TEXT)),))),
    ],
)
def test_nested_types_are_frozen(written: dict[str, Any], expected: LogicalType) -> None:
    assert _column(written) == expected


def test_captured_postgres_events_give_both_tables_as_they_were_last() -> None:
    text = (SCHEMAS / "debezium_postgres_with_schemas.jsonl").read_text(encoding="utf-8")
    catalog = read_connect(text)
    assert catalog.names == ("public.t_types", "public.t_full")
    assert {c.name: str(c.type) for c in catalog.table("public.t_full").columns} == {
        "id": "int",
        "v": "text",
        "toast": "text",
        "extra": "int",
    }
    types = catalog.table("lab.public.t_types")
    assert [c.name for c in types.partition] == ["id"]
    assert {c.name: str(c.type) for c in types.regulars} == {
        "big": "bigint", "small": "smallint", "n": "decimal", "n_unb": "decimal", "r": "float", "d": "double",
        "b": "boolean", "t": "text", "vc2": "text", "ch": "text", "ts": "datetime", "tstz": "instant", "dt": "date",
        "tm": "time", "tmtz": "text", "iv": "bigint", "j": "json", "jb": "json", "by": "blob",
        "ai": "frozen<list<int>>", "at": "frozen<list<text>>", "u": "uuid", "ip": "text", "mood": "text",
        "toast": "text", "hs": "blob",
    }  # fmt: skip


def test_the_cassandra_connectors_nested_cells_give_the_columns_values() -> None:
    text = (SCHEMAS / "debezium_cassandra_key_and_value.json").read_text(encoding="utf-8")
    table = read_connect(text).table("ks.d")
    assert [c.name for c in table.partition] == ["pk", "ck1", "ck2"]
    assert {c.name: str(c.type) for c in table.regulars} == {
        "b": "blob", "big": "bigint", "bo": "boolean", "d": "double", "fl": "frozen<list<int>>",
        "fu": "frozen<addr>", "l": "frozen<list<int>>", "m": "frozen<map<text, int>>", "se": "frozen<list<text>>",
        "ts": "timestamp", "u": "uuid", "v": "int", "w": "text", "st": "text",
    }  # fmt: skip


def test_without_a_key_schema_the_caller_names_the_key() -> None:
    text = (SCHEMAS / "debezium_cassandra_value.json").read_text(encoding="utf-8")
    with pytest.raises(SchemaError, match="give the key's schema as well"):
        read_connect(text).table("ks.d")
    assert [c.name for c in read_connect(text, key_columns=["ck1", "pk"]).table("ks.d").partition] == ["ck1", "pk"]
    with pytest.raises(SchemaError, match="no key column 'ck'; did you mean 'ck"):
        read_connect(text, key_columns=["ck"]).table("ks.d")


def test_a_column_that_only_looks_like_a_range_or_a_cell_stays() -> None:
    after = _struct(
        {"type": "int32", "field": "k"},
        {"type": "string", "field": "_range_start"},
        _struct({"type": "int32", "field": "value"}, name="cell_value", field="v"),
        name="lab.shop.t.Value",
        field="after",
    )
    envelope = _struct({**after, "field": "before"}, after, {"type": "string", "field": "op"}, name="lab.shop.t.Envelope")
    table = read_connect(json.dumps({"schema": envelope, "payload": None}), key_columns=["k"]).table("shop.t")
    assert [c.name for c in table.columns] == ["k", "_range_start", "v"]
    assert isinstance(table.column("v").type, Udt)


def test_debeziums_own_topics_are_no_tables() -> None:
    change = _struct({"type": "string", "field": "ddl"}, name="io.debezium.connector.mysql.SchemaChangeValue")
    assert read_connect(json.dumps({"schema": change, "payload": {}})).names == ()


def test_a_line_that_is_not_json_is_placed() -> None:
    with pytest.raises(SchemaError, match=r"^e\.jsonl:2:2: not JSON"):
        read_connect('{"schema": null}\n{]', where="e.jsonl")
