"""Rules K1 and K2: which keys are equal, and in which order they stand; the oracle, and DuckDB by every strategy."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from helpers.reading import canonical
from helpers.schemas import (
    BIGINT,
    BLOB,
    BOOLEAN,
    CASSANDRA_KINDS,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INET,
    INT,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    TIMEUUID,
    UUID,
    VARINT,
    scalar,
    table,
)
from helpers.values import (
    GREATEST,
    LEAST,
    NAN,
    V1_LATE_BUT_LESS_BY_TEXT,
    V1_NEW,
    V1_NEW_HIGH,
    V1_NEW_LOW,
    V1_OLD,
    V4_HIGH,
    V4_LOW,
    values_of,
)
from helpers.writing import Writer
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt
from cdc_views.rules.codec.comparable import comparable, partition_identity
from cdc_views.rules.codec.serialized import deserialize, serialize

Shown = Callable[..., list[dict[str, Any]]]
TYPES: list[LogicalType] = [
    *map(scalar, CASSANDRA_KINDS),
    ListOf(DOUBLE),
    SetOf(DECIMAL),
    MapOf(TEXT, DOUBLE),
    TupleOf((INT, TEXT)),
    Udt("tests", "pair", (("a", DECIMAL), ("b", ListOf(INT)))),
]

ONE, ONE_AGAIN = Decimal("1.0"), Decimal("1.00")
INF = float("inf")


def texts(rows: list[dict[str, Any]], name: str) -> list[str]:
    """Return a column as text, which tells 1.0 from 1.00 and -0.0 from 0.0."""
    return [str(row[name]) for row in rows]


# K1: equality


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (DECIMAL, ONE, ONE_AGAIN),
        (DECIMAL, Decimal("10"), Decimal("1E+1")),
        (DOUBLE, -0.0, 0.0),
        (FLOAT, -0.0, 0.0),
        (SetOf(DECIMAL), (ONE,), (ONE_AGAIN,)),
        (ListOf(DOUBLE), (-0.0,), (0.0,)),
        (TupleOf((INT, DOUBLE)), (1, -0.0), (1, 0.0)),
    ],
    ids=str,
)
def test_partition_keys_of_other_bytes_are_other_partitions(shown: Shown, kind: Any, one: Any, other: Any) -> None:
    schema = table("t", partition={"k": kind}, clustering={"c": INT}, statics={"s": INT}, regulars={"v": INT})
    write = Writer(schema)
    facts = [write.insert(one, 1, at=1, v=1), write.insert(other, 1, at=2, v=2), write.static(other, at=1, s=5)]
    rows = shown(schema, *facts, write.delete_partition(one, at=0))
    assert sorted((str(row["k"]), row["v"], row["s"]) for row in rows) == sorted([(str(one), 1, None), (str(other), 2, 5)])
    assert texts(shown(schema, *facts, write.delete_partition(one, at=9)), "k") == [str(other)]


@pytest.mark.parametrize(
    ("kind", "keys", "shown_as"),
    [
        (DECIMAL, [ONE_AGAIN, ONE, Decimal("1")], "1"),
        (DECIMAL, [Decimal("1E+1"), Decimal("10")], "10"),
        (DECIMAL, [Decimal("-0.0"), Decimal("0")], "-0.0"),
        (DOUBLE, [NAN, NAN], "nan"),
        (SetOf(DECIMAL), [(ONE_AGAIN,), (ONE,)], str((ONE,))),
    ],
    ids=str,
)
def test_clustering_keys_equal_by_their_comparator_are_one_row(shown: Shown, kind: Any, keys: list[Any], shown_as: str) -> None:
    schema = table("t", partition={"k": INT}, clustering={"c": kind}, regulars={"v": INT, "w": INT})
    write = Writer(schema)
    facts = [write.insert(1, key, at=at, v=at) for at, key in enumerate(keys)]
    for order in (facts, facts[::-1]):
        (row,) = shown(schema, *order)
        assert (str(row["c"]), row["v"]) == (shown_as, len(keys) - 1)
    assert shown(schema, *facts, write.delete(1, keys[0], at=9)) == []


@pytest.mark.parametrize("kind", [DOUBLE, FLOAT, ListOf(DOUBLE), TupleOf((INT, FLOAT))], ids=str)
def test_the_two_zeros_are_two_clustering_keys(shown: Shown, kind: Any) -> None:
    wrap: Callable[[float], Any] = {DOUBLE: float, FLOAT: float, ListOf(DOUBLE): lambda z: (z,)}.get(kind, lambda z: (1, z))
    schema = table("t", partition={"k": INT}, clustering={"c": kind}, regulars={"v": INT})
    write = Writer(schema)
    rows = shown(schema, write.insert(1, wrap(0.0), at=1, v=1), write.insert(1, wrap(-0.0), at=2, v=2))
    assert [(canonical(row["c"]), row["v"]) for row in rows] == [(canonical(wrap(-0.0)), 2), (canonical(wrap(0.0)), 1)]


def test_collection_keys_equal_by_their_comparator_are_one_element(shown: Shown) -> None:
    collections = {"e": SetOf(DECIMAL, frozen=False), "m": MapOf(DECIMAL, INT, frozen=False)}
    schema = table("t", partition={"k": INT}, regulars=collections)
    write = Writer(schema)
    facts = [
        write.update(1, at=1, e=write.appended("e", {ONE_AGAIN: True}, at=1), m=write.appended("m", {ONE_AGAIN: 1}, at=1)),
        write.update(1, at=2, e=write.appended("e", {ONE: True}, at=2), m=write.appended("m", {ONE: 2}, at=2)),
    ]
    (row,) = shown(schema, *facts)
    assert str(row["e"]) == str((ONE,))
    assert str(row["m"]) == str(((ONE, 2),))


@pytest.mark.parametrize("element", [DOUBLE, ListOf(DOUBLE)], ids=str)
def test_the_two_zeros_are_two_collection_keys_and_nan_is_one(shown: Shown, element: Any) -> None:
    wrap: Callable[[float], Any] = float if element == DOUBLE else lambda number: (number,)
    schema = table("t", partition={"k": INT}, regulars={"e": SetOf(element, frozen=False)})
    write = Writer(schema)
    keys = [wrap(number) for number in (NAN, INF, 0.0, -0.0, -INF)]
    facts = [write.update(1, at=1, e=write.appended("e", {key: True}, at=1)) for key in (*keys, wrap(float("nan")))]
    (row,) = shown(schema, *facts)
    assert canonical(row["e"]) == canonical(tuple(reversed(keys)))


@pytest.mark.parametrize("kind", [DECIMAL, DOUBLE, UUID, VARINT, INET, TupleOf((INT, TEXT))], ids=str)
def test_a_partition_key_of_0_bytes_is_a_key_like_any_other(shown: Shown, kind: Any) -> None:
    statics = {"s": INT, "sm": MapOf(TEXT, INT, frozen=False)}
    schema = table("t", partition={"k": kind}, clustering={"c": INT}, statics=statics, regulars={"e": SetOf(INT, frozen=False)})
    write = Writer(schema)
    facts = [
        write.insert(EMPTY, 1, at=2, e=write.appended("e", {1: True}, at=2)),
        write.static(EMPTY, at=2, s=5, sm=write.appended("sm", {"a": 1}, at=2)),
    ]
    expected = {"k": EMPTY, "c": 1, "s": 5, "sm": (("a", 1),), "e": (1,)}
    assert shown(schema, *facts) == [expected]
    assert shown(schema, *facts, write.delete_partition(EMPTY, at=1)) == [expected]
    assert shown(schema, *facts, write.delete_partition(EMPTY, at=2)) == []
    assert shown(schema, facts[1]) == [{**expected, "c": None, "e": None}]


def test_keys_without_clustering_tell_their_bytes_apart_too(shown: Shown) -> None:
    schema = table("t", partition={"a": DECIMAL, "b": DOUBLE}, regulars={"v": INT})
    write = Writer(schema)
    keys = [(ONE, 0.0), (ONE, -0.0), (ONE_AGAIN, 0.0), (EMPTY, NAN), (ONE, EMPTY)]
    rows = shown(schema, *(write.insert(*key, at=1, v=n) for n, key in enumerate(keys)))
    assert {(canonical(row["a"]), canonical(row["b"])): row["v"] for row in rows} == {
        (canonical(a), canonical(b)): n for n, (a, b) in enumerate(keys)
    }


# K2: order

IN_ORDER: list[tuple[LogicalType, list[Any]]] = [
    (DECIMAL, [EMPTY, *map(Decimal, ("-1E+30", "-1.5", "-1E-30", "0", "0.09", "9", "10"))]),
    (VARINT, [EMPTY, -(10**25), -129, -128, -1, 0, 9, 10, 10**25]),
    (DOUBLE, [EMPTY, -INF, -1e300, -5e-324, -0.0, 0.0, 5e-324, 1e300, INF, NAN]),
    (FLOAT, [EMPTY, -INF, -1.5, -0.0, 0.0, 1.5, INF, NAN]),
    (TEXT, ["", "B", "a", "aa", "é", "\uffff", "\U0001f600"]),
    (BLOB, [b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"\xff\x00"]),
    (INET, [EMPTY, "0:0:0:0:0:0:0:1", "9.0.0.1", "10.0.0.1", "200.0.0.1", "fe80:0:0:0:0:0:0:1"]),
    (UUID, [EMPTY, V1_OLD, V1_NEW_LOW, V1_NEW, V1_NEW_HIGH, V1_LATE_BUT_LESS_BY_TEXT, V4_LOW, V4_HIGH]),
    (TIMEUUID, [EMPTY, V1_OLD, V1_NEW, V1_NEW_HIGH, V1_NEW_LOW, V1_LATE_BUT_LESS_BY_TEXT]),
    (BIGINT, [EMPTY, LEAST, -1, 0, GREATEST]),
    (SMALLINT, [EMPTY, -32768, -1, 0, 32767]),
    (TIMESTAMP, [EMPTY, LEAST, -1, 0, GREATEST]),
    (DATE, [EMPTY, -(1 << 31), -1, 0, (1 << 31) - 1]),
    (scalar(Kind.TIME), [EMPTY, 0, 1, 86_399_999_999_999]),
    (BOOLEAN, [EMPTY, False, True]),
    (ListOf(INT), [EMPTY, (), (-1,), (-1, 5), (0,), (10,)]),
    (TupleOf((INT, TEXT)), [EMPTY, (None, "a"), (-1, "z"), (1, None), (1, "a")]),
]


@pytest.mark.parametrize("is_descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize(("kind", "keys"), IN_ORDER, ids=lambda v: str(v) if isinstance(v, LogicalType) else None)
def test_rows_stand_in_the_order_of_their_keys(shown: Shown, kind: LogicalType, keys: list[Any], is_descending: bool) -> None:
    schema = table("t", partition={"k": INT}, clustering={"c": kind}, descending=("c",) * is_descending, regulars={"v": INT})
    write = Writer(schema)
    shuffled = Random(1).sample(keys, len(keys))
    rows = shown(schema, *(write.insert(1, key, at=1) for key in shuffled))
    assert [canonical(row["c"]) for row in rows] == list(map(canonical, reversed(keys) if is_descending else keys))


@pytest.mark.parametrize(("kind", "keys"), IN_ORDER, ids=lambda v: str(v) if isinstance(v, LogicalType) else None)
def test_elements_stand_in_the_order_of_their_type(shown: Shown, kind: LogicalType, keys: list[Any]) -> None:
    schema = table("t", partition={"k": INT}, regulars={"e": SetOf(kind, frozen=False), "m": MapOf(kind, INT, frozen=False)})
    write = Writer(schema)
    shuffled = Random(2).sample(keys, len(keys))
    places = {id(key): n for n, key in enumerate(keys)}
    facts = [
        write.update(1, at=1, e=write.appended("e", {key: True}, at=1), m=write.appended("m", {key: places[id(key)]}, at=1))
        for key in shuffled
    ]
    (row,) = shown(schema, *facts)
    assert canonical(row["e"]) == canonical(tuple(keys))
    assert [value for _, value in row["m"]] == list(range(len(keys)))


@given(st.data())
def test_comparables_are_equal_where_values_are_and_bytes_always_tell_partitions_apart(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(TYPES))
    left, right = (data.draw(st.sampled_from(values_of(kind))) for _ in range(2))
    is_same_bytes = serialize(kind, left) == serialize(kind, right)
    assert (partition_identity(kind, left) == partition_identity(kind, right)) == is_same_bytes
    assert not is_same_bytes or comparable(kind, left) == comparable(kind, right)
    if comparable(kind, left) < comparable(kind, right):
        assert partition_identity(kind, left) < partition_identity(kind, right)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_values_survive_their_serialized_form(kind: LogicalType) -> None:
    for value in values_of(kind):
        assert canonical(deserialize(kind, serialize(kind, value))) == canonical(value)


def test_a_uuid_of_another_version_does_not_mix_with_times() -> None:
    assert comparable(Scalar(Kind.UUID), V4_LOW) > comparable(Scalar(Kind.UUID), V1_LATE_BUT_LESS_BY_TEXT)
