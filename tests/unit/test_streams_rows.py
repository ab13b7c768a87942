"""Rows that a source made by itself land as its events would."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from deltalake import DeltaTable
from helpers.tiny_project import SCHEMA, event, landed_ids, raw_table

from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import Position, StreamEvent, StreamLander
from cdc_views.landing.blocks import DecodedRows
from cdc_views.model.schema import TableSchema
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Bound, Elements, Fact, FactKind, Origin
from cdc_views.schemas.cql.reader import read_cql
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.relation_read import facts_of

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def rows(*numbers: int, relation: Relation | None = None) -> DecodedRows:
    """The rows of events at these positions of segment 1."""
    of = relation or Relation(SCHEMA)
    facts = [fact for number in numbers for fact in CassandraMutation().decode(SourceLine(event(number)), of.schema)]
    return DecodedRows(of, of.rows(facts, landed_at=0).drop_columns(["_landed_at"]), len(numbers), numbers[0])


def lander(raw: RawTable) -> StreamLander:
    return StreamLander(raw, CassandraMutation(), "log")


def land(raw: RawTable, *items: DecodedRows, through: int) -> tuple[int, int, int]:
    """Events, facts and skipped of a batch."""
    last = [int(item.table["_origin"].to_pylist()[-1]["position"]) for item in items]
    events = [StreamEvent(Position(1, at), item) for at, item in zip(last, items, strict=True)]
    report = lander(raw).land(events, through=Position(1, through), now=NOW)
    return report.events, report.facts, report.skipped


def test_rows_land_once_however_they_overlap(tmp_path: Path) -> None:
    raw = raw_table(tmp_path)
    assert land(raw, rows(1, 2, 3), rows(2, 3, 4), through=4) == (4, 4, 0)
    assert land(raw, rows(3, 4), rows(4, 5), through=5) == (1, 1, 1)
    assert landed_ids(raw) == [1, 2, 3, 4, 5]
    assert lander(raw).position() == Position(1, 5)


def test_rows_of_a_schema_from_before_a_drop_land_without_the_column(tmp_path: Path) -> None:
    before = Relation(SCHEMA)
    raw = raw_table(tmp_path)
    kept = tuple(column for column in SCHEMA.columns if column.name != "state")
    now = replace(raw, relation=Relation(replace(SCHEMA, columns=kept)))
    assert land(now, rows(1, 2, relation=before), through=2) == (2, 2, 0)
    assert landed_ids(now) == [1, 2]


def test_rows_of_a_schema_from_before_a_type_gained_a_field_land_with_it_null(tmp_path: Path) -> None:
    was, now = (addresses(*fields) for fields in (("street",), ("street", "country")))
    made = decoded_addresses(was)
    raw = RawTable(str(tmp_path / "raw"), Relation(now))
    assert land(raw, made, through=1) == (1, 1, 0)
    (fact,) = facts_of(raw.relation, DeltaTable(raw.location).to_pyarrow_table())
    there = ("Elm Street", None)
    assert fact.clustering == (there,)
    assert fact.cells["home"].value == there
    assert fact.cells["home"].order_bytes == next(iter(facts_of(made.relation, made.table))).cells["home"].order_bytes
    assert dict(fact.elements["former"].cells)[there].value == b""
    assert [cell.value for _, cell in fact.elements["visited"].cells] == [there]
    assert {path: cell.value for path, cell in fact.elements["parts"].cells} == {"street": "Elm Street"}


def addresses(*fields: str) -> TableSchema:
    """A table with a user type of these fields wherever one may be."""
    listed = ", ".join(f"{name} text" for name in fields)
    catalog = read_cql(
        f"CREATE TYPE shop.addr ({listed}); CREATE TABLE shop.people (id int, at frozen<addr>, home frozen<addr>, "
        "former set<frozen<addr>>, visited map<int, frozen<addr>>, parts addr, PRIMARY KEY (id, at))"
    )
    return catalog.table("shop.people")


def decoded_addresses(schema: TableSchema) -> DecodedRows:
    """Rows of one event that says something of each column."""
    text = b"Elm Street"
    value = (len(text).to_bytes(4, "big") + text).hex()
    there = {"street": text.decode()}
    cells = [
        {"column": "home", "written": 1, "bytes": value},
        {"column": "former", "path": there, "written": 1},
        {"column": "visited", "path": 7, "written": 1, "bytes": value},
        {"column": "parts", "path": "street", "written": 1, "value": text.decode()},
    ]
    row = {"kind": "row", "clustering": {"at": there}, "cells": cells}
    line = {"format": "cassandra-mutation/1", "node": "n", "segment": "1", "position": 1, "keyspace": "shop", "table": "people",
            "partition": {"id": 1}, "rows": [row]}  # fmt: skip
    relation = Relation(schema)
    facts = CassandraMutation().decode(SourceLine(json.dumps(line)), schema)
    return DecodedRows(relation, relation.rows(facts, landed_at=0).drop_columns(["_landed_at"]), 1, 1)


def test_rows_of_an_earlier_schema_say_what_they_would_by_the_later_one_wherever_a_type_stands() -> None:
    """In keys, bounds, nested values and elements; a column dropped meanwhile says nothing any more."""
    was, now = nesting("street text, n int", "gone int"), nesting("street text, n int, z duration", "fresh int")
    made, wanted = (facts_of_nesting(schema, *more) for schema, more in ((was, ()), (now, (None,))))
    stored = Relation(was).rows(made, landed_at=0).drop_columns(["_landed_at"])
    found = DecodedRows(Relation(was), stored, 2, 1).facts(now)
    assert [_without_bytes(fact) for fact in found] == [_without_bytes(fact) for fact in wanted]


def nesting(fields: str, column: str) -> TableSchema:
    """A table with a user type of these fields within other types."""
    catalog = read_cql(
        f"CREATE TYPE shop.addr ({fields}); CREATE TYPE shop.whole (a frozen<addr>, n int); CREATE TABLE shop.people ("
        "p frozen<list<frozen<addr>>>, c frozen<tuple<int, frozen<addr>>>, fl frozen<list<frozen<addr>>>, w frozen<whole>, "
        f"m map<frozen<addr>, frozen<addr>>, o whole, {column}, PRIMARY KEY (p, c))"
    )
    return catalog.table("shop.people")


def facts_of_nesting(schema: TableSchema, *more: None) -> list[Fact]:
    """A row and a range deletion; `more` are the fields that the type has gained."""
    one, other = ("Elm", 1, *more), (None, 2, *more)
    values = {"fl": (one, other), "w": (one, 5)}
    cells = {name: Cell(5, value, b"") for name, value in values.items()}
    if schema.has("gone"):
        cells["gone"] = Cell(5, 4, b"")
    address = schema.column("m").type.value
    a, b = (Cell(5, value, serialize(address, value)) for value in (one, other))
    elements = {"m": Elements(Deletion(1, 2), ((one, b),)), "o": Elements(None, (("a", a),))}
    cells = {name: replace(cell, order_bytes=serialize(schema.column(name).type, cell.value)) for name, cell in cells.items()}
    key, origin = ((one, other),), Origin("n", "1", 1)
    start, end = Bound(((1, one),), inclusive=True), Bound(((2, other),), inclusive=False)
    return [
        Fact(FactKind.ROW, key, clustering=((1, one),), liveness=Liveness(1), cells=cells, elements=elements, origin=origin),
        Fact(FactKind.RANGE, key, deletion=Deletion(3, 4), start=start, end=end, origin=origin),
    ]


def _without_bytes(fact: Fact) -> Fact:
    """The bytes that order values are those of the type that wrote them."""
    cells = {name: replace(cell, order_bytes=b"") for name, cell in fact.cells.items()}
    parts = {
        name: replace(part, cells=tuple((path, replace(cell, order_bytes=b"")) for path, cell in part.cells))
        for name, part in fact.elements.items()
    }
    return replace(fact, cells=cells, elements=parts)
