"""Spark reads, keeps and serves a warehouse on a store, and shows the rows that DuckDB shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cdc_views_spark.engine import SparkEngine
from helpers.tiers import often
from services.stores import Store

from cdc_views import Project
from cdc_views.model.strategy import Strategy
from cdc_views.storage.delta_tables import opened
from cdc_views.table import Table

pytestmark = [pytest.mark.spark, pytest.mark.parametrize("store", ["s3"], indirect=True)]
NOW = 1795254672
CASES = often(("types3", "names3", "wide3", "exotic3"), "names3")
"""Names are what a store's paths may trip over."""


def table_at(folder: Path, prefix: str, store: Store, schema: Path) -> Table:
    name = next(line for line in schema.read_text().splitlines() if line.upper().startswith("CREATE TABLE")).split()[2]
    name = name.replace('"', "").strip("(")
    raw, kept = {"format": "cassandra-mutation"}, {"serving": True}
    table = {"name": name, "schema": str(schema), "raw": raw, "materialize": kept}
    told = {"name": "t", "engine": "spark", "warehouse": prefix, "storage_options": store.options(), "tables": [table]}
    (folder / "cdc_views.yml").write_text(json.dumps(told))
    return Project.load(folder / "cdc_views.yml").table(name)


def rows(table: Table, engine: str, **more: object) -> list[str]:
    found = table.query(engine=engine, as_of=NOW, **more).to_arrow()  # type: ignore[arg-type]
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.usefixtures("session_of_store")
@pytest.mark.parametrize("case", CASES)
def test_real_tables(
    case: str, cassandra_cases: Path, tmp_path: Path, prefix: str, store: Store, spark_engine: SparkEngine
) -> None:
    folder = cassandra_cases / case
    table = table_at(tmp_path, prefix, store, folder / "schema.cql")
    table.land(folder / "node1.jsonl", folder / "node2.jsonl")
    expected = rows(table, "duckdb", raw_only=True)
    assert rows(table, "spark") == expected
    assert table.materialize(engine="spark").is_full
    assert rows(table, "spark") == rows(table, "duckdb") == expected
    table.land(folder / "node3.jsonl")
    expected = rows(table, "duckdb", raw_only=True)
    assert rows(table, "spark", strategy=Strategy.AGGREGATE) == expected
    table.materialize(engine="spark")
    assert rows(table, "spark") == rows(table, "duckdb") == expected
    assert opened(str(table.serving_location)).to_pyarrow_dataset().count_rows() == table.query().to_arrow().num_rows
    table.apply(engine="spark")
    keyspace, _, view = table.name.partition(".")
    shown = spark_engine.session.table(f"`{keyspace}`.`{view}`")
    assert shown.count() == table.query(engine="duckdb").to_arrow().num_rows
    assert [check.name for check in table.validate(engine="spark", as_of=NOW).checks if check.broken] == []
