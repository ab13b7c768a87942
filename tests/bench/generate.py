"""The benchmark's raw table: N events of M replicas in the canonical layout, seeds fixed, written by DuckDB.

1 % of the events tie with another's write time, 2 % of the cells expire, 1 % are tombstones; row and partition
deletions occur. 18 facts a row key.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
from deltalake import convert_to_deltalake

from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.relation import RawTable, Relation

EVENTS, REPLICAS, CELLS = 2_000_000, 3, 8
NOW = 1_795_251_719
_TYPES = (Kind.INT, Kind.BIGINT, Kind.TEXT, Kind.BOOLEAN, Kind.TIMESTAMP, Kind.TEXT, Kind.INT, Kind.UUID)
SCHEMA = TableSchema(
    "bench",
    "events",
    (
        Column("account", Scalar(Kind.INT), Role.PARTITION),
        Column("item", Scalar(Kind.INT), Role.CLUSTERING),
        *(Column(f"c{i}", Scalar(kind)) for i, kind in enumerate(_TYPES)),
    ),
)
_VALUES = (
    "(hash(i + 11) % 200000)::INTEGER - 100000",
    "(hash(i + 12) >> 1)::BIGINT - 4611686018427387904",
    "'name ' || (hash(i + 13) % 100000)",
    "hash(i + 14) % 3 = 0",
    "1700000000000 + (hash(i + 15) % 100000000)::BIGINT",
    "'a longer text, as people write ' || hash(i + 16)",
    "(hash(i + 17) % 1000)::INTEGER",
    "uuid_of(hash(i + 18), hash(i + 19))",
)
_FLOOR = "(-9223372036854775807 - 1)"


MACRO = (
    "CREATE MACRO uuid_of(a, b) AS printf('%08x-%04x-4%03x-8%03x-%012x', a & 4294967295, (a >> 32) & 65535,"
    " (a >> 48) & 4095, b & 4095, (b >> 12) & 281474976710655)"
)


def _cell(index: int) -> str:
    rank = f"""CASE WHEN hash(i * 17 + {index}) % 100 = 0 THEN {NOW - 3600}::BIGINT + i % 1000
      WHEN hash(i * 13 + {index}) % 100 < 2
        THEN {_FLOOR} + ({NOW - 43200} + i % 86400)::BIGINT * 2147483648 + (1073741823 - 86400) * 2 + 1
      ELSE {_FLOOR} + 1 END"""
    value = f"CASE WHEN hash(i * 17 + {index}) % 100 <> 0 THEN {_VALUES[index]} END"
    present = f"hash(i * 31 + {index}) % 100 < 60 AND kind = 'row'"
    return f'CASE WHEN {present} THEN struct_pack(written := w, "rank" := {rank}, "value" := {value}) END AS c{index}'


def _events(events: int) -> str:
    """One row an event; a hundredth of the write times fall together with their neighbours'."""
    keys = max(events // 6, 1)
    return f"""SELECT i, hash(i * 7 + 1) % {keys} AS k,
      CASE WHEN i % 997 = 7 THEN 'partition' ELSE 'row' END AS kind,
      1700000000000000 + CASE WHEN hash(i + 3) % 100 = 0 THEN i // 1000 * 1000 ELSE i END AS w
    FROM range({events}) AS t(i)"""


def build(folder: Path, *, events: int = EVENTS) -> RawTable:
    """Return the raw table of `events` events, made once and kept in `folder`."""
    raw = RawTable(str(folder / f"raw_{events}"), Relation(SCHEMA))
    if (Path(raw.location) / "_delta_log").is_dir():
        return raw
    Path(raw.location).mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(MACRO)
        connection.execute(f"CREATE TABLE events AS {_events(events)}")
        for replica in range(REPLICAS):
            connection.execute(
                f"COPY ({cells_sql(replica)}) TO '{raw.location}/part-{replica}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 122880)"
            )
    convert_to_deltalake(raw.location)
    return raw


def cells_sql(replica: int) -> str:
    """Facts of a table `events` (i, k, kind, w) as one replica logged them."""
    bound = 'struct_pack("size" := 0::TINYINT, inclusive := true, item := 0::INTEGER)'
    deleted = f"CASE WHEN i % 200 = 3 OR kind = 'partition' THEN struct_pack(written := w, \"at\" := {NOW - 60}::BIGINT) END"
    live = f"CASE WHEN hash(i) % 3 = 0 AND kind = 'row' THEN struct_pack(written := w, \"rank\" := {_FLOOR} + 1) END"
    return f"""SELECT kind AS _kind, (k // 16)::INTEGER AS account, CASE WHEN kind = 'row' THEN (k % 16)::INTEGER END AS item,
      {live} AS _live, {deleted} AS _deleted,
      CASE WHEN false THEN {bound} END AS _from, CASE WHEN false THEN {bound} END AS _to,
      {", ".join(_cell(i) for i in range(CELLS))},
      struct_pack(node := '127.0.0.{replica + 1}', segment := '1', "position" := i) AS _origin,
      make_timestamptz({NOW} * 1000000::BIGINT) AS _landed_at
    FROM events ORDER BY i"""


if __name__ == "__main__":
    build(Path(sys.argv[1]), events=int(sys.argv[2]))
