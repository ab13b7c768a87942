"""YAML and JSON schemas: each way to write a key, and errors that name the line."""

from __future__ import annotations

import json

import pytest

from cdc_views.errors import SchemaError, UnsupportedError
from cdc_views.model.schema import DroppedColumn, TableSchema
from cdc_views.model.types import Kind, ListOf, MapOf, Scalar, Udt
from cdc_views.schemas.yaml_schema import read_yaml

FULL = """\
keyspace: shop
table: orders
types:
  addr: {street: text, at: frozen<place>}
  place: {x: double, "na me": 'list<int>'}
columns:
  total: decimal
  placed: {type: timestamp, order: desc}
  country: {type: text, role: static}
  tenant: text
  past: map<text, addr>
  taken: instant
primary_key: [[tenant], placed]
dropped:
  - {name: old, at: 1700000000000000, type: text}
  - {name: older, at: 1600000000000000}
"""


def _only(text: str, *, keyspace: str = "") -> TableSchema:
    catalog = read_yaml(text, keyspace=keyspace, where="s.yml")
    return catalog.table(catalog.names[0])


def _roles(table: TableSchema) -> list[str]:
    return [f"{c.name} {c.role.value}{' desc' if c.descending else ''}" for c in table.columns]


def test_the_documented_form_is_read_whole() -> None:
    table = _only(FULL)
    assert table.full_name == "shop.orders"
    assert _roles(table) == [
        "tenant partition",
        "placed clustering desc",
        "total regular",
        "country static",
        "past regular",
        "taken regular",
    ]
    place = Udt("shop", "place", (("x", Scalar(Kind.DOUBLE)), ("na me", ListOf(Scalar(Kind.INT)))))
    addr = Udt("shop", "addr", (("street", Scalar(Kind.TEXT)), ("at", place)))
    assert table.column("past").type == MapOf(Scalar(Kind.TEXT), addr, frozen=False)
    assert table.column("taken").type == Scalar(Kind.INSTANT)
    assert table.dropped == (
        DroppedColumn("old", 1700000000000000, Scalar(Kind.TEXT)),
        DroppedColumn("older", 1600000000000000, None),
    )


COLUMNS = "table: t\ncolumns: {a: int, b: int, c: int}\n"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("primary_key: a", ["a partition", "b regular", "c regular"]),
        ("primary_key: [b]", ["b partition", "a regular", "c regular"]),
        ("primary_key: [c, a]", ["c partition", "a clustering", "b regular"]),
        ("primary_key: [[c, b], a]", ["c partition", "b partition", "a clustering"]),
        ("partition_key: b\nclustering_key: [c, a]", ["b partition", "c clustering", "a clustering"]),
        ("partition_key: [b, a]", ["b partition", "a partition", "c regular"]),
    ],
)
def test_each_way_to_write_the_key(key: str, expected: list[str]) -> None:
    assert _roles(_only(COLUMNS + key)) == expected


def test_the_key_may_be_written_as_roles() -> None:
    text = "table: t\ncolumns: {c: {type: int, role: clustering, order: desc}, a: {type: int, role: partition}, b: int}"
    assert _roles(_only(text)) == ["a partition", "c clustering desc", "b regular"]


@pytest.mark.parametrize(
    ("head", "keyspace", "expected"),
    [
        ("table: t", "", "t"),
        ("table: t", "ks", "ks.t"),
        ("name: shop.t", "ks", "shop.t"),
        ("keyspace: own\ntable: t", "ks", "own.t"),
        ('keyspace: "Größe"\ntable: "T 🙂"', "", "Größe.T 🙂"),
    ],
)
def test_the_name_of_the_table(head: str, keyspace: str, expected: str) -> None:
    assert _only(f"{head}\ncolumns: {{a: int}}\nprimary_key: a", keyspace=keyspace).full_name == expected


def test_several_tables_share_keyspace_and_types() -> None:
    catalog = read_yaml(
        """keyspace: ks
types: {u: {x: int}}
tables:
  - {table: a, columns: {k: int, v: frozen<u>}, primary_key: k}
  - {table: other.b, columns: {k: int}, primary_key: k}
  - {table: c, columns: {k: int, n: counter}, primary_key: k}
"""
    )
    assert tuple(catalog.tables) == ("ks.a", "other.b")
    assert catalog.table("ks.a").column("v").type == Udt("ks", "u", (("x", Scalar(Kind.INT)),))
    with pytest.raises(UnsupportedError, match="counter"):
        catalog.table("ks.c")


def test_json_with_tabs_and_escapes_is_read_as_well() -> None:
    written = {"table": "t", "columns": {"k🙂": "int", "v": "list<text>"}, "primary_key": ["k🙂"]}
    assert _roles(_only(json.dumps(written, indent="\t"))) == ["k🙂 partition", "v regular"]


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("table: t\ncolumns: {a: int}\nprimary_kee: a", "3:1", "unknown key 'primary_kee'; did you mean 'primary_key'"),
        ("table: t\ncolumns:\n  a: int\n  b: lisst<int>\nprimary_key: a", "4:6", "did you mean 'list'"),
        ("table: t\ncolumns:\n  a: int\n  b: 'map<text, itn>'\nprimary_key: a", "4:17", "did you mean 'int'"),
        ("table: t\ncolumns:\n  a: {type: int, roll: static}\nprimary_key: a", "3:18", "did you mean 'role'"),
        ("table: t\ncolumns:\n  a: {type: int, role: statik}", "3:24", "expected one of partition, clustering"),
        ("table: t\ncolumns: {abc: int}\nprimary_key: [abd]", "3:15", "did you mean 'abc'"),
        ("table: t\ncolumns: {a: int, a: text}\nprimary_key: a", "2:19", "'a' is given twice"),
        ("table: t\ncolumns: [a, b]", "2:10", "expected a mapping"),
        ("table: t\nprimary_key: a", "1:1", "missing `columns`"),
        ("table: t\ncolumns: {a: {role: partition}}", "2:14", "missing `type`"),
        ("table: t\ncolumns: {a: int}\nprimary_key: a\ndropped: [{name: x, at: soon}]", "4:25", "whole number"),
        ("table: t\ncolumns: {a: {type: int, role: static}}\nprimary_key: a", "3:14", "the key says partition"),
    ],
)
def test_what_is_wrong_with_a_table_is_placed(text: str, place: str, expected: str) -> None:
    with pytest.raises(SchemaError) as caught:
        _only(text)
    assert expected in str(caught.value)
    assert str(caught.value).startswith(f"s.yml:{place}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("table: [t\n", "s.yml:2:1: not YAML"),
        ("", "the file is empty"),
        ("columns: {a: int}", "the table has no name"),
        ("- a\n- b", "s.yml:1:1: expected a mapping"),
        ("just text", "expected a mapping"),
        ("a: b: c", "not YAML"),
    ],
)
def test_what_is_no_yaml_schema_is_refused(text: str, expected: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_yaml(text, where="s.yml")
    assert expected in str(caught.value)


def test_a_table_without_a_key_is_refused() -> None:
    with pytest.raises(SchemaError, match="t has no key"):
        _only(COLUMNS)


def test_a_decimal_may_have_a_scale() -> None:
    table = _only("table: t\ncolumns: {id: int, a: 'decimal(12,4)', b: 'list<decimal(3)>', c: decimal}\nprimary_key: [id]")
    assert [table.column(name).type for name in "abc"] == [
        Scalar(Kind.DECIMAL, 4, 12), ListOf(Scalar(Kind.DECIMAL, 0, 3), frozen=False), Scalar(Kind.DECIMAL),
    ]  # fmt: skip
    with pytest.raises(SchemaError, match="expected the scale, a whole number, found 'x'"):
        _only("table: t\ncolumns: {id: int, a: 'decimal(12,x)'}\nprimary_key: [id]")
