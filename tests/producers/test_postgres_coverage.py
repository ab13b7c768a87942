"""What is still to be read of a table of PostgreSQL, by what has landed of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cdc_producers.postgres.catalog import PostgresColumn, PostgresTable
from cdc_producers.postgres.shapes import Covered, Landed, needed
from cdc_producers.row_log import WHOLE
from deltalake import write_deltalake

from cdc_views.formats.base import WriteOrder, order_key
from cdc_views.landing import Position, create_raw
from cdc_views.landing.raw_table import last_read_keys
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.storage.relation import RawTable, Relation

COLUMNS = tuple(PostgresColumn(number, name, 25, -1) for number, name in ((1, "id"), (3, "v"), (4, "w")))
TABLE = PostgresTable(16_400, "public", "t", COLUMNS, ("id",), frozenset({"id"}), 10)
KNOWN = {"id", "v", "w"}
READ, PART = Position(100, WHOLE), Position(100, 7)


def covered(column: int, *, table: int = TABLE.number) -> Covered:
    return Covered(table, column)


@pytest.mark.parametrize(
    ("landed", "known", "wanted"),
    [
        (Landed(None, None), KNOWN, {"columns": (), "empties": False, "resumes": False}),
        (Landed(PART, covered(0)), KNOWN, {"resumes": True}),
        (Landed(PART, None), KNOWN, {"resumes": True}),
        (Landed(PART, covered(0, table=1)), KNOWN, {"empties": True, "resumes": False}),
        (Landed(READ, covered(4, table=1)), KNOWN, {"empties": True}),
        (Landed(READ, covered(4)), KNOWN, None),
        (Landed(READ, None), KNOWN, None),
        (Landed(READ, covered(1)), KNOWN, {"columns": ("v", "w"), "only_set": True, "empties": False}),
        (Landed(READ, covered(3)), {"id", "v"}, None),
    ],
)
def test_what_is_to_be_read(landed: Landed, known: set[str], wanted: dict[str, Any] | None) -> None:
    found = needed(TABLE, landed, known)
    assert (found is None) == (wanted is None)
    assert {name: getattr(found, name) for name in wanted or ()} == (wanted or {})


def test_of_a_table_that_lost_a_column_nulls_count_too() -> None:
    found = needed(replace(TABLE, has_dropped=True), Landed(READ, covered(3)), KNOWN)
    assert found is not None
    assert not found.only_set


def test_what_is_covered_is_one_position_that_grows() -> None:
    for lsn, one in (
        (1, covered(0)),
        (1, covered(1)),
        (1, covered(1600)),
        (2, covered(0, table=2**32 - 1)),
        (3, Covered.by(TABLE)),
    ):
        assert Covered.at(one.position(lsn)) == one
        assert one.position(lsn).nth < 1 << 63
    assert covered(0).position(1) < covered(1600).position(1) < covered(0, table=1).position(2)


def test_the_raw_table_says_which_keys_landed_last(tmp_path: Path) -> None:
    schema = TableSchema("public", "t", (Column("id", Scalar(Kind.TEXT), Role.PARTITION), Column("v", Scalar(Kind.TEXT))))
    raw = RawTable(str(tmp_path / "t"), Relation(schema, WriteOrder.LOG_POSITION))
    table = create_raw(raw, format_name="debezium")

    def land(at: int, *keys: str, written: int, kind: str = "row") -> None:
        rows = [{"_kind": kind, "id": key, "_live": {"written": Decimal(written), "rank": 0}, "_landed_at": at} for key in keys]
        arrow = raw.relation.arrow_schema().empty_table().from_pylist(rows, schema=raw.relation.arrow_schema())
        write_deltalake(table, arrow, mode="append")

    land(10, "a", "b", written=order_key(100))
    land(20, "c", "d", "e", written=order_key(100))
    land(15, "late", written=order_key(100))
    land(30, "streamed", written=order_key(100, ordinal=1))
    land(40, "other", written=order_key(101))
    assert last_read_keys(raw, position=100, names=["id"], most=2) == [("d",), ("e",)]
    assert last_read_keys(raw, position=101, names=["id"], most=2) == [("other",)]
    assert last_read_keys(raw, position=99, names=["id"], most=2) == []
