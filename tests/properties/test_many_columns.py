"""A table of many columns: DuckDB reads few of them without a filter an aggregate, and shows what the oracle does."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.histories import NOW, histories
from helpers.reading import CASES, SEED, assert_same, land, read_rows
from helpers.schemas import INT, TEXT, Subject, table

from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.rules.oracle import latest_rows
from cdc_views.sql.dialects.duckdb import MOST_FILTERS


def subject(columns: int) -> Subject:
    """Texts that no row shows decide by their bytes; most rows have few of the columns."""
    regulars = {f"column_{number}": TEXT if number % 2 else INT for number in range(columns)}
    return Subject(table("many", partition={"case": INT}, clustering={"c": INT}, regulars=regulars))


@pytest.mark.parametrize(("columns", "filters"), [(MOST_FILTERS // 2, True), (MOST_FILTERS + 10, False)])
def test_few_of_many_columns(duckdb_engine: DuckDbEngine, tmp_path: Path, columns: int, filters: bool) -> None:
    many = subject(columns)
    made = histories(many, cases=CASES // 4, seed=SEED)
    raw = land(tmp_path, many.relation, made.facts)
    shown = ("case", "c", "column_0", "column_1")
    text = duckdb_engine.sql(Read(raw, as_of=NOW, columns=shown))
    assert (text.count("FILTER(") >= columns - len(shown)) == filters, "the steps of deletions have a filter or two anyway"
    expected = [{name: row[name] for name in shown} for row in latest_rows(many.schema, made.facts, now=NOW)]
    assert len(expected) > CASES // 8, "the histories show rows"
    assert_same(expected, read_rows(duckdb_engine, raw, as_of=NOW, columns=shown), of=made, how="few columns")
