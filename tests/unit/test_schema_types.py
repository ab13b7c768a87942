"""CQL type text: every form parses, `str` and `parse_type` are inverse, and what is no type is placed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_views.errors import SchemaError
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf, children
from cdc_views.schemas import parse_type
from cdc_views.schemas.cql.types import NATIVE_KINDS

INT, TEXT, FLOAT = Scalar(Kind.INT), Scalar(Kind.TEXT), Scalar(Kind.FLOAT)
ADDR = Udt("shop", "addr", (("street", TEXT), ("zip", INT)))
HOSTILE = Udt("shop", 'We"ird Ädr 🙂', (("x", INT),))
MARSHAL = "org.apache.cassandra.db.marshal."


@pytest.mark.parametrize("kind", list(Kind))
def test_every_scalar_is_read_by_its_own_name(kind: Kind) -> None:
    assert parse_type(kind.value) == Scalar(kind)
    assert parse_type(kind.value.upper()) == Scalar(kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("varchar", TEXT),
        ("list<int>", ListOf(INT, frozen=False)),
        ("frozen<list<int>>", ListOf(INT)),
        ("LIST < frozen < set < Text > > >", ListOf(SetOf(TEXT), frozen=False)),
        ("map<int, list<text>>", MapOf(INT, ListOf(TEXT), frozen=False)),
        ("tuple<int, text>", TupleOf((INT, TEXT))),
        ("frozen<tuple<int, frozen<addr>>>", TupleOf((INT, ADDR))),
        ("vector<float, 3>", VectorOf(FLOAT, 3)),
        ("addr", Udt("shop", "addr", ADDR.fields, frozen=False)),
        ("frozen<shop.addr>", ADDR),
        ('frozen<"shop"."addr">', ADDR),
        ("set<addr>", SetOf(ADDR, frozen=False)),
        ('frozen<"We""ird Ädr 🙂">', HOSTILE),
    ],
)
def test_types_of_every_form_are_read(text: str, expected: LogicalType) -> None:
    assert parse_type(text, udts={"addr": ADDR, HOSTILE.name: HOSTILE}, keyspace="shop") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'org.apache.cassandra.db.marshal.UTF8Type'", TEXT),
        (f"'{MARSHAL}ListType({MARSHAL}Int32Type)'", ListOf(INT, frozen=False)),
        (f"'{MARSHAL}FrozenType({MARSHAL}MapType({MARSHAL}UTF8Type, {MARSHAL}Int32Type))'", MapOf(TEXT, INT)),
        (f"'{MARSHAL}ReversedType({MARSHAL}TimeUUIDType)'", Scalar(Kind.TIMEUUID)),
        (f"'{MARSHAL}TupleType({MARSHAL}Int32Type,{MARSHAL}FloatType)'", TupleOf((INT, FLOAT))),
        (f"'{MARSHAL}VectorType({MARSHAL}FloatType, 3)'", VectorOf(FLOAT, 3)),
        (
            (f"'{MARSHAL}FrozenType({MARSHAL}UserType(shop,61646472,737472656574:{MARSHAL}UTF8Type,7a6970:{MARSHAL}Int32Type))'"),
            ADDR,
        ),
        ("'IntegerType'", Scalar(Kind.VARINT)),
    ],
)
def test_java_class_names_are_read(text: str, expected: LogicalType) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("lisst<int>", 1, "did you mean 'list'"),
        ("map<text, itn>", 11, "did you mean 'int'"),
        ("map<int>", 1, "map takes 2 types, not 1"),
        ("list<int", 9, "expected '>', found the end"),
        ("vector<float, 0>", 15, "whole number above 0"),
        ("vector<float, '3'>", 15, "whole number above 0"),
        ("int int", 5, "expected the end of the type"),
        ("", 1, "expected a type"),
        ('"int"', 1, "user type 'int' is not defined"),
        ("frozen<other.addr>", 8, "user type 'other.addr' is not defined"),
        ("'com.acme.Secret'", 1, "use the CQL type it stands for"),
        ("'org.apache.cassandra.db.marshal.UserType(ks,zz)'", 1, "name in hexadecimal"),
        ('"not closed', 1, "is not closed"),
    ],
)
def test_what_is_no_type_is_refused_at_its_place(text: str, column: int, expected: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_type(text)
    assert expected in str(caught.value)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_a_place_given_by_the_caller_is_where_the_error_is() -> None:
    with pytest.raises(SchemaError) as caught:
        parse_type("set<itn>", where="shop.yml", line=7, column=12)
    assert str(caught.value).startswith("shop.yml:7:16: ")


def test_a_user_type_may_be_called_like_one_of_our_own_kinds() -> None:
    named_json = Udt("shop", "json", (("x", INT),))
    assert parse_type("frozen<json>", udts={"json": named_json}) == named_json


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12).filter(
    # `Udt.__str__` quotes what is no plain identifier; a type that is called like a native one it does not quote
    lambda name: name not in NATIVE_KINDS and name not in {"frozen", "list", "set", "map", "tuple", "vector"}
)


def _nested(inner: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    frozen = inner.map(lambda kind: kind.frozen_form())
    several = st.lists(frozen, min_size=1, max_size=3).map(tuple)
    fields = st.lists(st.tuples(names, frozen), min_size=1, max_size=3, unique_by=lambda field: field[0]).map(tuple)
    return st.one_of(
        st.builds(ListOf, frozen, frozen=st.booleans()),
        st.builds(SetOf, frozen, frozen=st.booleans()),
        st.builds(MapOf, frozen, frozen, frozen=st.booleans()),
        st.builds(TupleOf, several),
        st.builds(VectorOf, frozen, st.integers(1, 5000)),
        st.builds(Udt, st.just("shop"), names, fields, frozen=st.booleans()),
    )


types = st.recursive(st.sampled_from(Kind).map(Scalar), _nested, max_leaves=8)


def _udts(kind: LogicalType) -> dict[str, Udt]:
    found = {kind.name: kind} if isinstance(kind, Udt) else {}
    for child in children(kind):
        found |= _udts(child)
    return found


def _is_unambiguous(kind: LogicalType, seen: dict[str, Udt]) -> bool:
    """Whether no two different user types in `kind` share a name, as in one keyspace."""
    if isinstance(kind, Udt):
        known = seen.setdefault(kind.name, kind)
        if known.fields != kind.fields:
            return False
    return all(_is_unambiguous(child, seen) for child in children(kind))


@given(types.filter(lambda kind: _is_unambiguous(kind, {})))
def test_parsing_what_str_prints_gives_the_same_type(kind: LogicalType) -> None:
    assert parse_type(str(kind), udts=_udts(kind), keyspace="shop") == kind
