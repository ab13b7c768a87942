"""Which conditions name one partition, and that Python, DuckDB and Spark agree on where it is kept."""

from __future__ import annotations

import duckdb
import pytest
from helpers.schemas import BIGINT, BLOB, INT, TEXT, table

from cdc_views.engines.state_plan import digest
from cdc_views.plan.compact import part_of
from cdc_views.sql.dialects import dialect
from cdc_views.state.pruning import one_partition
from cdc_views.storage.relation import Relation

TWO = table("two", partition={"a": INT, "b": TEXT}, regulars={"v": BIGINT})
ONE = table("one", partition={"a": INT}, regulars={"v": BIGINT})
BYTES = table("bytes", partition={"a": BLOB}, regulars={"v": BIGINT})


@pytest.mark.parametrize(
    ("schema", "where", "expected"),
    [
        (ONE, "a = 7", ("7",)),
        (ONE, "(a = 007)", ("7",)),
        (ONE, "7 = a AND v > 2", ("7",)),
        (ONE, "a = '7'", None),
        (ONE, "a = 7.0", None),
        (ONE, "a = 7 OR a = 8", None),
        (ONE, "NOT a = 7", None),
        (ONE, "a >= 7", None),
        (ONE, "v = 7", None),
        (TWO, "a = 7", None),
        (TWO, "a = 7 AND b = 'it''s'", ("7", "it's")),
        (TWO, "a = 7 AND b = 8", None),
        (TWO, "b = '' AND (a = 1)", ("1", "")),
        (BYTES, "a = '\\x00'::BLOB", None),
    ],
)
def test_a_condition_names_one_partition(schema: object, where: str, expected: tuple[str, ...] | None) -> None:
    assert one_partition(schema, where) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [(7, "x"), (-1, ""), (0, "é|ü"), (2147483647, "a|b")])
def test_duckdb_keeps_a_partition_where_python_looks(key: tuple[int, str]) -> None:
    part = dialect("duckdb").render(part_of(Relation(TWO), prefix="b", digits=2)).sql(dialect="duckdb")
    values = f"SELECT {key[0]}::INTEGER AS a, '{key[1]}' AS b"
    (found,) = duckdb.sql(f"SELECT {part} FROM ({values})").fetchall()[0]
    assert found == "b" + digest(str(key[0]), key[1])[:2]
