"""The pages of the wire format and of the raw layout: from the decoder's and the relation's own definitions."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
from page_text import code, page, table

from cdc_views.formats import cassandra_mutation as wire
from cdc_views.landing.quarantine import COLUMNS as QUARANTINE
from cdc_views.model.types import Kind, Scalar, carries_comparable, carries_order_bytes
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.codec.physical import arrow_type
from cdc_views.rules.codec.serialized import serialize
from cdc_views.schemas.cql.reader import read_cql
from cdc_views.storage.relation import LAYOUT_VERSION, Relation

MEANINGS = {
    "format": f"`{wire.FORMAT}`",
    "node": "the replica whose log held it; needed to count copies",
    "segment": "the log's segment, a text or a number",
    "position": "where in the segment, from 0; with node and segment unique within a table",
    "keyspace": "of the table, as it is, without quotes",
    "table": "the table, as it is, without quotes",
    "partition": "the partition key: column and value",
    "partition_deletion": "a deletion of the partition: `written`, `deleted_at`",
    "unreadable": "of a mutation that could not be read: `reason`, and `bytes` in hex; the event goes to quarantine",
    "rows": "a list of rows, static rows and range deletions",
    "kind": "`row`, `static` or `range_deletion`",
    "clustering": "the clustering key: column and value; not of `static`",
    "liveness": "the row marker: `written`, and `ttl` with `expires_at` where it expires",
    "deletion": "a deletion of the row, of the range, or, in a cell, of the whole collection: `written`, `deleted_at`",
    "cells": "a list of cells",
    "start": "where the range starts, in clustering order: `clustering`, a prefix of the key or nothing, and `inclusive`",
    "end": "where it ends, likewise",
    "column": "the column's name",
    "path": "of a multi-cell column: set element, map key, list timeuuid, or user type's field",
    "written": "write time, µs since the epoch, chosen by the client",
    "ttl": "time to live, s; with `expires_at`",
    "expires_at": "when it expires, s since the epoch, chosen by a server",
    "deleted_at": "of a tombstone: when it was deleted, s since the epoch, chosen by a server; it makes the cell one",
    "value": "the value as JSON; null with `bytes` is a live value that JSON has not (NaN, infinities)",
    "bytes": "the serialized value in hex, for rule C2.6; where missing, rule C3's order of the value is used",
}
REQUIRED = {
    "the event": dict.fromkeys(("format", "node", "segment", "position", "keyspace", "table", "partition"), "yes"),
    "a row": {"kind": "yes", "clustering": "of a `row`, where the table has clustering columns"},
    "a range deletion": dict.fromkeys(("kind", "start", "end", "deletion"), "yes"),
    "a cell": {"column": "yes", "written": "but not beside `deletion`"},
}
"""Part → member → when an event without it goes to quarantine; tests/docs/test_reference.py leaves each one out."""
EXAMPLES: dict[Kind, Any] = {
    Kind.ASCII: "a",
    Kind.BIGINT: 9007199254740993,
    Kind.BLOB: b"\xca\xfe",
    Kind.BOOLEAN: True,
    Kind.DATE: 20000,
    Kind.DATETIME: 1_700_000_000_123_456,
    Kind.DECIMAL: Decimal("1.10"),
    Kind.DOUBLE: 0.5,
    Kind.DURATION: (14, 3, 3_723_004_005_006),
    Kind.FLOAT: 0.5,
    Kind.INET: "127.0.0.1",
    Kind.INSTANT: 1_700_000_000_123_456,
    Kind.INT: 1,
    Kind.JSON: '{"a": 1}',
    Kind.SMALLINT: 1,
    Kind.TEXT: "a",
    Kind.TIME: 45_296_789_000_000,
    Kind.TIMESTAMP: 1_700_000_000_123,
    Kind.TIMEUUID: uuid.UUID("13814000-1dd2-11b2-8080-808080808080"),
    Kind.TINYINT: 1,
    Kind.UUID: uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    Kind.VARINT: 10**20,
}
CQL = """
CREATE TYPE shop.address (street text, zip int);
CREATE TABLE shop.orders (
    tenant text, id decimal, line int, note text static, amount decimal, state text, tags set<text>,
    sizes map<text, int>, home address, PRIMARY KEY ((tenant, id), line));
"""


def wire_page() -> str:
    """The members of an event of `cassandra-mutation`, and how values read."""
    intro = (
        "One JSON object a line, one update of one partition. In the project file and on the command line the format is\n"
        "`cassandra-mutation`. Numbers are exact: never passed through a double.\n"
        "An unknown member is an error of the event, which then\n"
        "goes to [quarantine](../explanation/raw-table.md#quarantine).\n"
        "Counters cannot be told in it (rule [W5](semantics.md#w5-counters)).\n"
    )
    groups = (
        ("the event", wire._EVENT),
        ("a row", wire._ROW),
        ("a range deletion", wire._RANGE),
        ("a cell", wire._CELL | {"deletion"}),
    )
    sections = [f"## Members of {name}\n\n{_members(known, REQUIRED[name])}" for name, known in groups]
    return page(f"Wire format {wire.FORMAT}", intro, *sections, f"## Values\n\n{_values()}")


def _members(known: set[str], required: dict[str, str]) -> str:
    ordered = sorted(known, key=list(MEANINGS).index)
    return table(("member", "required", "meaning"), [(code(one), required.get(one, ""), MEANINGS[one]) for one in ordered])


def _values() -> str:
    intro = (
        "As `query --format jsonl` prints them, and as events hold them.\n"
        "`bytes` is what Cassandra serializes; relational types have none.\n"
    )
    rows = []
    for kind, value in EXAMPLES.items():
        relational = kind in (Kind.DATETIME, Kind.INSTANT, Kind.JSON)
        hexed = "" if relational else code(serialize(Scalar(kind), value).hex())
        rows.append((code(kind.value), code(to_json(Scalar(kind), value)), hexed))
    return f"{intro}\n{table(('type', 'example', 'bytes'), rows)}"


def layout_page() -> str:
    """The columns of a raw table by an example, and how each type is stored."""
    intro = (
        f"Layout version {LAYOUT_VERSION}.\n"
        "What the columns mean, and how names are encoded: [the raw layout](../explanation/raw-table.md).\n"
        "State is in the same layout, with a partition column `_part`.\n"
    )
    (schema,) = read_cql(CQL).tables.values()
    columns = [(code(field.name), code(_arrow(field.type))) for field in Relation(schema).arrow_schema()]
    example = f"## An example\n\n```sql\n{CQL.strip()}\n```\n\n{table(('column', 'Arrow type'), columns)}"
    types = [
        (
            code(kind.value),
            code(_arrow(arrow_type(Scalar(kind)))),
            "yes" * carries_comparable(Scalar(kind)),
            "yes" * carries_order_bytes(Scalar(kind)),
        )
        for kind in EXAMPLES
    ]
    stored = (
        "The physical types are the same in every engine. *Comparable*: as\n"
        "a key it has a column `_key_…` beside it, where SQL's `=` or `<`\n"
        "is not Cassandra's (rules [K1](semantics.md#k1-which-keys-are-equal),\n"
        "[K2](semantics.md#k2-how-keys-are-ordered)).\n"
        "*Bytes*: its cells keep the serialized value, whose order decides\n"
        "ties (rule [C3](semantics.md#c3-byte-order-is-not-sql-order)).\n"
    )
    kept = table(("type", "stored as", "comparable", "bytes"), types)
    quarantine = table(("column", "Arrow type"), [(code(f.name), code(_arrow(f.type))) for f in QUARANTINE])
    return page(
        "Raw layout: columns and types", intro, example, f"## Types\n\n{stored}\n{kept}", f"## Quarantine\n\n{quarantine}"
    )


def _arrow(kind: pa.DataType) -> str:
    return str(kind).replace("item: ", "").replace("element: ", "")
