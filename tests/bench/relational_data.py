"""Raw facts of a relational table, as Debezium's events land: each writes its whole row (rule S1), seeds fixed, by DuckDB.

Six facts a key; 2 % of the facts are deletions, 5 % of the values null. A share of the facts leaves a text out, as PostgreSQL
does with a large value that did not change (rule S4).
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
from deltalake import convert_to_deltalake

from cdc_views.formats.base import WriteOrder
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar, carries_order_bytes
from cdc_views.storage.relation import RawTable, Relation

FACTS, FACTS_PER_KEY = 3_000_000, 6
FILES = 3
LARGE = 2
"""The number of the text column that facts may leave out."""
_FLOOR = "(-9223372036854775807 - 1)"
_KINDS = (Scalar(Kind.TEXT), Scalar(Kind.DECIMAL, 2, 12), Scalar(Kind.TEXT), Scalar(Kind.INSTANT))
_VALUES = (
    "'state ' || (hash(i + {n}) % 12)",
    "((hash(i + {n}) % 9000000)::DECIMAL(18, 2) / 100)::DECIMAL(12, 2)::TEXT",
    "'a longer text, as people write ' || hash(i + {n})",
    "1700000000000000 + (hash(i + {n}) % 100000000000)::BIGINT",
)


def relation_of(columns: int) -> Relation:
    """Return a table of one key and some columns: a state, a price, a text, a time, and again."""
    cells = (Column(f"c{n}", _KINDS[n % len(_KINDS)]) for n in range(columns))
    schema = TableSchema("bench", "orders", (Column("id", Scalar(Kind.BIGINT), Role.PARTITION), *cells))
    return Relation(schema, WriteOrder.LOG_POSITION, is_positioned=True)  # as Debezium's events are


def build(folder: Path, *, facts: int, columns: int, percent_absent: int) -> RawTable:
    """Return the raw table, made once and kept in `folder`."""
    place = folder / f"relational_{facts}_{columns}_{percent_absent}"
    raw = RawTable(str(place), relation_of(columns))
    if (place / "_delta_log").exists():
        return raw
    place.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        for n in range(FILES):
            query = _facts_sql(facts, n * facts // FILES, (n + 1) * facts // FILES, columns, percent_absent)
            connection.execute(f"COPY ({query}) TO '{place}/part-{n}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 122880)")
    convert_to_deltalake(raw.location)
    return raw


def _facts_sql(facts: int, start: int, end: int, columns: int, percent_absent: int) -> str:
    """One row an event, in the order of the log."""
    written = "((100000 + i)::HUGEINT * 4294967296)::DECIMAL(38, 0)"
    cells = ", ".join(_cell(n, percent_absent) for n in range(columns))
    return f"""SELECT 'row' AS _kind, (hash(i * 7 + 1) % {max(facts // FACTS_PER_KEY, 1)})::BIGINT AS id,
      CASE WHEN NOT gone THEN struct_pack(written := {written}, "rank" := {_FLOOR} + 1) END AS _live,
      CASE WHEN gone THEN struct_pack(written := {written}, "at" := 1700000000::BIGINT) END AS _deleted,
      {cells}, struct_pack(node := 'orders', segment := '1', "position" := i) AS _origin,
      make_timestamptz(1700000000000000 + i) AS _landed_at
    FROM (SELECT i, hash(i * 3 + 5) % 50 = 0 AS gone FROM range({start}, {end}) AS t(i)) ORDER BY i"""


def _cell(n: int, percent_absent: int) -> str:
    kind = _KINDS[n % len(_KINDS)]
    written = "((100000 + i)::HUGEINT * 4294967296)::DECIMAL(38, 0)"
    is_null = f"hash(i * 17 + {n}) % 20 = 0"
    value = f"CASE WHEN NOT ({is_null}) THEN {_VALUES[n % len(_VALUES)].format(n=n)} END"
    order_bytes = f', "bytes" := encode({value})' * carries_order_bytes(kind)
    rank = f"CASE WHEN {is_null} THEN 1700000000::BIGINT ELSE {_FLOOR} + 1 END"
    absent = f"OR hash(i * 31) % 100 < {percent_absent}" * (n == LARGE)
    cell = f'struct_pack(written := {written}, "rank" := {rank}, "value" := {value}{order_bytes})'
    return f"CASE WHEN NOT (gone {absent}) THEN {cell} END AS c{n}"


if __name__ == "__main__":
    build(Path(sys.argv[1]), facts=int(sys.argv[2]), columns=int(sys.argv[3]), percent_absent=int(sys.argv[4]))
