"""Encodings of Kafka Connect and Debezium, one value at a time."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import SourceLine, Verdict
from cdc_views.formats.connect.hints import Binary, Decimals, Hints, Unit
from cdc_views.formats.connect.record import ConnectType
from cdc_views.formats.connect.rows import list_path
from cdc_views.formats.connect.values import native
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.unavailable import is_unavailable
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.codec.comparable import comparable
from cdc_views.rules.codec.times import PG_INFINITY, parse_micros
from cdc_views.rules.facts import Fact
from cdc_views.rules.oracle import latest_rows

INT, TEXT = Scalar(Kind.INT), Scalar(Kind.TEXT)
NOTHING = Hints()


def declared(type_: str, name: str = "", **rest: Any) -> Hints:
    return Hints(declared=ConnectType({"type": type_, "name": name, **rest}))


def scaled(scale: str) -> Hints:
    return declared("bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": scale})


def read(kind: Kind | LogicalType, value: Any, hints: Hints = NOTHING) -> Any:
    return native(Scalar(kind) if isinstance(kind, Kind) else kind, value, hints)[0]


AT = parse_micros("2024-01-02 03:04:05.123456")
DECIMAL_4 = scaled("4")
RELATIONAL = Hints(numbers_show_scale=True)
A_LONG_DECIMAL = Decimal("123456789012345678901234567890.123456789")
LIST_OF_DECIMALS = declared("array", items={"type": "bytes", "parameters": {"scale": "4"}})


@pytest.mark.parametrize(
    ("kind", "value", "hints", "expected"),
    [
        (Kind.DATETIME, AT, declared("int64", "io.debezium.time.MicroTimestamp"), AT),
        (Kind.DATETIME, AT // 1000, declared("int64", "io.debezium.time.Timestamp"), AT // 1000 * 1000),
        (Kind.DATETIME, AT // 1000, declared("int64", "org.apache.kafka.connect.data.Timestamp"), AT // 1000 * 1000),
        (Kind.DATETIME, AT * 1000 + 7, declared("int64", "io.debezium.time.NanoTimestamp"), AT),
        (Kind.DATETIME, 5, declared("int64", "io.debezium.time.MicroTimestamp"), 5),
        (Kind.DATETIME, AT, NOTHING, AT),
        (Kind.DATETIME, AT // 1000, NOTHING, AT // 1000 * 1000),
        (Kind.DATETIME, 5, Hints(unit=Unit.MICROS), 5),
        (Kind.DATETIME, 253402300799000, NOTHING, parse_micros("9999-12-31 23:59:59")),
        (Kind.DATETIME, 253402300799999999, NOTHING, parse_micros("9999-12-31 23:59:59.999999")),
        (Kind.DATETIME, 9223372036825200, NOTHING, PG_INFINITY),
        (Kind.DATETIME, -9223372036832400000, NOTHING, -PG_INFINITY),
        (Kind.DATETIME, (1 << 63) - 1, NOTHING, PG_INFINITY),
        (Kind.INSTANT, "-infinity", NOTHING, -PG_INFINITY),
        (Kind.INSTANT, "2024-01-02T05:04:05.123456+02:00", NOTHING, AT),
        (Kind.TIMESTAMP, "1704164645123", Hints(default_units={Kind.TIMESTAMP: Unit.MILLIS}), AT // 1000),
        (Kind.TIMESTAMP, "2024-01-02 03:04:05.123456 UTC", NOTHING, AT // 1000),
        (Kind.TIMESTAMP, "1.704164645123456E9", NOTHING, AT // 1000),
        (Kind.DATE, 19782, NOTHING, 19782),
        (Kind.DATE, "-0043-03-15Z", NOTHING, -735160),
        (Kind.TIME, 45296789, NOTHING, 45_296_789_000_000),
        (Kind.TIME, 45296789000, NOTHING, 45_296_789_000_000),
        (Kind.TIME, 45296789, declared("int64", "io.debezium.time.MicroTime"), 45_296_789_000),
        (Kind.TIME, 30_000_000, Hints(default_units={Kind.TIME: Unit.MICROS}), 30 * 10**9),
        (Kind.TIME, "12:34:56.789Z", NOTHING, 45_296_789_000_000),
        (Kind.DURATION, "P1Y-2M3W4DT5H6M-7.5S", NOTHING, (10, 25, (5 * 3600 + 6 * 60) * 10**9 - 7_500_000_000)),
        (Kind.DURATION, 93784000000, declared("int64", "io.debezium.time.MicroDuration"), (0, 0, 93784 * 10**9)),
        (Kind.DURATION, "1y2mo3d", NOTHING, (14, 3, 0)),
        (Kind.DECIMAL, "B1vNFQ==", DECIMAL_4, Decimal("12345.6789")),
        (Kind.DECIMAL, "B1vNFQ==", Hints(scale=4), Decimal("12345.6789")),
        (Scalar(Kind.DECIMAL, 4), "B1vNFQ==", NOTHING, Decimal("12345.6789")),
        (Scalar(Kind.DECIMAL, 4), "+w==", NOTHING, Decimal("-0.0005")),
        (Scalar(Kind.DECIMAL, 4), "12.3400", NOTHING, Decimal("12.3400")),
        (Scalar(Kind.DECIMAL, 7), "1E-7", NOTHING, Decimal("1E-7")),
        (Scalar(Kind.DECIMAL, 2), "1234", RELATIONAL, Decimal("-26588.24")),
        (Scalar(Kind.DECIMAL, 0), "123", NOTHING, Decimal(123)),
        (Scalar(Kind.DECIMAL, 0), "-123", NOTHING, Decimal(-123)),
        (Scalar(Kind.DECIMAL, 0), "1234", Hints(decimals=Decimals.STRING), Decimal(1234)),
        (Scalar(Kind.DECIMAL, 0), "1234", Hints(decimals=Decimals.PRECISE), Decimal(-2658824)),
        (Kind.DECIMAL, {"scale": 9, "value": "XODppWAV/sWq36MorjmBFQ=="}, NOTHING, A_LONG_DECIMAL),
        (Kind.DECIMAL, "1234", NOTHING, Decimal(1234)),
        (Kind.DECIMAL, "12345.6789", Hints(scale=4), Decimal("12345.6789")),
        (Kind.DECIMAL, Decimal("-0.00010"), Hints(scale=4), Decimal("-0.0001")),
        (Kind.DECIMAL, Decimal("0.12345"), Hints(scale=4), Decimal("0.12345")),
        (Kind.DECIMAL, "AQ==", scaled("-3"), Decimal("1E+3")),
        (Kind.TEXT, "B1vNFQ==", DECIMAL_4, "12345.6789"),
        (Kind.TEXT, 93784000000, NOTHING, "93784000000"),
        (Kind.VARINT, -1, Hints(wraps_unsigned=True), (1 << 64) - 1),
        (Kind.VARINT, -1, NOTHING, -1),
        (Kind.VARINT, "AP//////////", scaled("0"), (1 << 64) - 1),
        (Kind.INT, "AQI=", declared("bytes", "io.debezium.data.Bits"), 0x201),
        (Kind.TINYINT, True, NOTHING, 1),
        (Kind.BIGINT, "9007199254740993", NOTHING, 9007199254740993),
        (Kind.BOOLEAN, 0, NOTHING, False),
        (Kind.BLOB, "3q2+7w==", NOTHING, b"\xde\xad\xbe\xef"),
        (Kind.BLOB, "3q2-7w==", Hints(binary=Binary.BASE64_URL), b"\xde\xad\xbe\xef"),
        (Kind.BLOB, "deadbeef", NOTHING, b"\xde\xad\xbe\xef"),
        (Kind.BLOB, "deadbeef", Hints(binary=Binary.BASE64), base64.b64decode("deadbeef")),
        (Kind.BLOB, "deadbeef", declared("bytes"), base64.b64decode("deadbeef")),
        (Kind.BLOB, "0x23", declared("bytes"), b"\xd3\x1d\xb7"),
        (Kind.BLOB, "0x23", Hints(binary=Binary.BASE64), b"\xd3\x1d\xb7"),
        (Kind.BLOB, "0x23", NOTHING, b"\x23"),
        (Kind.BLOB, {"x": 1, "wkb": "AQE=", "srid": None}, NOTHING, b"\x01\x01"),
        (Kind.JSON, {"a": [1, Decimal("1.0"), None, True, "é"]}, NOTHING, '{"a":[1,1.0,null,true,"é"]}'),
        (Kind.FLOAT, "-Infinity", NOTHING, float("-inf")),
        (Kind.FLOAT, Decimal("0.1"), NOTHING, 0.10000000149011612),
        (Kind.INET, "::1/128", NOTHING, "0:0:0:0:0:0:0:1"),
        (Kind.INET, "localhost/127.0.0.1", NOTHING, "127.0.0.1"),
        (ListOf(Scalar(Kind.DECIMAL)), ["AQ==", None], LIST_OF_DECIMALS, (Decimal("0.0001"), None)),
        (SetOf(INT), [3, 1, 3], NOTHING, (1, 3)),
        (MapOf(INT, TEXT), {"10": "x", "9": "y"}, NOTHING, ((9, "y"), (10, "x"))),
        (MapOf(INT, TEXT), [[10, "x"], [9, "y"]], NOTHING, ((9, "y"), (10, "x"))),
        (TupleOf((INT, TEXT)), {"field1": 1, "field2": None}, NOTHING, (1, None)),
        (Udt("ks", "u", (("a", INT), ("b", TEXT))), {"a": 1}, NOTHING, (1, None)),
        (VectorOf(Scalar(Kind.FLOAT), 2), [1, 2], NOTHING, (1.0, 2.0)),
    ],
)  # fmt: skip
def test_a_value_reads_as(kind: Kind | LogicalType, value: Any, hints: Hints, expected: Any) -> None:
    found = read(kind, value, hints)
    assert (str(found), type(found)) == (str(expected), type(expected))


@pytest.mark.parametrize(
    ("kind", "value", "hints"),
    [
        (Kind.DECIMAL, "B1vNFQ==", NOTHING),
        (Kind.DECIMAL, "NaN", NOTHING),
        (Kind.DECIMAL, "-Infinity", NOTHING),
        (Scalar(Kind.DECIMAL, 0), "1234", NOTHING),
        (Scalar(Kind.DECIMAL, 0), "1234", RELATIONAL),
        (Scalar(Kind.DECIMAL, 2), "1234", NOTHING),
        (Kind.DECIMAL, "", DECIMAL_4),
        (Kind.DECIMAL, {"scale": 1}, NOTHING),
        (Kind.DECIMAL, {"scale": Decimal("1e999999999"), "value": "AQ=="}, NOTHING),
        (Kind.SMALLINT, 40000, NOTHING),
        (Kind.BIGINT, Decimal("1e999999999"), NOTHING),
        (Kind.BIGINT, "\u0661", NOTHING),
        (Kind.DATE, 1 << 40, NOTHING),
        (Kind.DATE, "infinity", NOTHING),
        (Kind.DATE, "0000-00-00", NOTHING),
        (Kind.DATETIME, "2024-00-01 00:00:00.000", NOTHING),
        (Kind.INSTANT, "0000-00-00 00:00:00", NOTHING),
        (Kind.DATETIME, 1 << 63, NOTHING),
        (Kind.TIME, "noon", NOTHING),
        (Kind.BLOB, "abc", NOTHING),
        (Kind.TEXT, "\ud800", NOTHING),
        (Kind.TEXT, True, NOTHING),
        (Kind.UUID, "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a}", NOTHING),
        (Kind.TIMEUUID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", NOTHING),
        (Kind.INET, "10.0.0.0/8", NOTHING),
        (VectorOf(Scalar(Kind.FLOAT), 3), [1], NOTHING),
        (Udt("ks", "u", (("a", INT),)), {"z": 1}, NOTHING),
    ],
)
def test_a_value_is_malformed(kind: Kind | LogicalType, value: Any, hints: Hints) -> None:
    with pytest.raises(MalformedEventError):
        read(kind, value, hints)


def test_base64_of_a_decimal_without_a_scale_says_what_to_do() -> None:
    with pytest.raises(MalformedEventError, match=r"decimal\.handling\.mode=string, or declare the column's scale"):
        read(Kind.DECIMAL, "B1vNFQ==")


@given(st.integers(), st.integers(-20, 40))
def test_every_unscaled_decimal_survives(unscaled: int, scale: int) -> None:
    data = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    found = read(Kind.DECIMAL, {"scale": scale, "value": base64.b64encode(data).decode()})
    assert (found.as_tuple().exponent, found.scaleb(scale) if abs(unscaled) < 10**20 else unscaled) == (-scale, unscaled)


@pytest.mark.parametrize(
    "value",
    [
        "__debezium_unavailable_value",
        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
        b"__debezium_unavailable_value".hex(),
        ["__debezium_unavailable_value"],
        ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="],
        list(b"__debezium_unavailable_value"),
        {"__debezium_unavailable_value": "__debezium_unavailable_value"},
        '{"__debezium_unavailable_value":"__debezium_unavailable_value"}',
    ],
)
def test_a_value_that_was_not_sent_is_absent(value: Any) -> None:
    assert is_unavailable(value)
    schema = TableSchema("public", "t", (Column("id", INT, Role.PARTITION), Column("big", Scalar(Kind.BLOB))))
    source = {"connector": "postgresql", "schema": "public", "table": "t", "db": "d", "lsn": 1}
    event = {"op": "u", "source": source, "before": None, "after": {"id": 1, "big": value}}
    (fact,) = Debezium().decode(SourceLine(json.dumps(event)), schema)
    assert not fact.cells


@pytest.mark.parametrize("value", ["", "x", [], ["x", "__debezium_unavailable_value"], {}, None, 1])
def test_other_values_were_sent(value: Any) -> None:
    assert not is_unavailable(value)


def test_of_rows_whose_keys_one_statement_swaps_one_hides_until_its_next_write() -> None:
    schema = TableSchema("public", "t", (Column("id", INT, Role.PARTITION), Column("v", TEXT)))
    first, second = {"id": 1, "v": "a"}, {"id": 2, "v": "b"}
    swapped = [(first, first | {"id": 2}, 7), (second, second | {"id": 1}, 8), (None, {"id": 2, "v": "c"}, 9)]
    source = {"connector": "postgresql", "db": "l", "schema": "public", "table": "t"}
    facts = list[Fact]()
    shown = list[list[int]]()
    for before, after, lsn in swapped:
        event = {"before": before, "after": after, "source": source | {"lsn": lsn}, "op": "u"}
        facts += Debezium().decode(SourceLine(json.dumps(event)), schema)
        shown.append(sorted(row["id"] for row in latest_rows(schema, facts, now=0)))
    assert shown == [[2], [1], [1, 2]]


def test_paths_of_lists_sort_by_write_time_and_then_by_index() -> None:
    places = [
        (written, index) for written in (0, 1, 10**15, 1_800_000_000_000_000) for index in (0, 1, 127, 128, 255, 256, 65536)
    ]
    order = [comparable(Scalar(Kind.TIMEUUID), list_path(written, index)) for written, index in places]
    assert order == sorted(set(order))
    assert {list_path(*place).version for place in places} == {1}


def test_fidelity_has_one_verdict_a_column_after_those_of_rows() -> None:
    kinds: list[LogicalType] = [Scalar(kind) for kind in Kind if kind is not Kind.COUNTER]
    kinds += [ListOf(INT), ListOf(ListOf(INT)), MapOf(TEXT, TEXT), SetOf(INT)]
    columns = [Column(f"c{i}", kind) for i, kind in enumerate(kinds)]
    schema = TableSchema("public", "t", (Column("id", INT, Role.PARTITION), *columns))
    found = Debezium().fidelity(schema)
    assert [f.column for f in found if f.column != "*"] == [c.name for c in schema.columns]
    assert (found[0].column, found[0].verdict) == ("*", Verdict.EXACT_IF)
    assert all(f.reason and f.case for f in found)
    verdicts = {str(c.type): f.verdict for c, f in zip(schema.columns, found[-len(schema.columns) :], strict=True)}
    wanted = {"int": Verdict.EXACT, "duration": Verdict.APPROXIMATE, "decimal": Verdict.EXACT_IF}
    assert verdicts | wanted | {"frozen<list<frozen<list<int>>>>": Verdict.UNSAFE} == verdicts
