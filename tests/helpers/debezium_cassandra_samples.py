"""Events of Debezium for Cassandra: captured samples, and events made by hand."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from cdc_views.formats.base import SourceLine
from cdc_views.formats.debezium_cassandra.format import DebeziumCassandra
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, ListOf, MapOf, Scalar, SetOf, Udt
from cdc_views.rules.facts import Fact

DATA = Path(__file__).parents[1] / "data" / "debezium_cassandra"

NOW = 1795251800  # before the samples' times to live run out

TEXT, INT = Scalar(Kind.TEXT), Scalar(Kind.INT)

ADDRESS = Udt("ks", "addr", (("street", TEXT), ("zip", INT)))

D = TableSchema(
    "ks",
    "d",
    (
        Column("pk", INT, Role.PARTITION),
        Column("ck1", INT, Role.CLUSTERING),
        Column("ck2", TEXT, Role.CLUSTERING),
        Column("st", TEXT, Role.STATIC),
        Column("b", Scalar(Kind.BLOB)),
        Column("big", Scalar(Kind.BIGINT)),
        Column("bo", Scalar(Kind.BOOLEAN)),
        Column("d", Scalar(Kind.DECIMAL)),
        Column("fl", ListOf(INT)),
        Column("fu", ADDRESS),
        Column("l", ListOf(INT, frozen=False)),
        Column("m", MapOf(TEXT, INT, frozen=False)),
        Column("se", SetOf(TEXT, frozen=False)),
        Column("ts", Scalar(Kind.TIMESTAMP)),
        Column("u", Scalar(Kind.UUID)),
        Column("v", INT),
        Column("w", TEXT),
    ),
)

KV = TableSchema("ks", "kv2", (Column("k", TEXT, Role.PARTITION), Column("n", INT), Column("v", TEXT)))

SAMPLES = {
    path.stem: json.loads(path.read_text(), parse_float=Decimal)
    for path in sorted(DATA.glob("*.json"))
    if path.stem != "debezium_value_schema"
}


def schema_of(name: str) -> TableSchema:
    return KV if name.startswith("kv_") else D


def decode(event: Any, schema: TableSchema = D) -> list[Fact]:
    return DebeziumCassandra().decode(SourceLine(json.dumps(event, default=float)), schema)


def event_of(name: str) -> Any:
    """The first event of a sample, to be changed."""
    return json.loads(json.dumps(SAMPLES[name]["debezium_events"][0], default=float))
