"""What is not asked for is not read: the engines' own plans say so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.engine import DuckDbEngine
from cdc_views.engines.exact import rows_of
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.cells import Cell
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.storage.relation import RawTable, Relation

INT, TEXT = Scalar(Kind.INT), Scalar(Kind.TEXT)
SCHEMA = TableSchema(
    "k",
    "t",
    (
        Column("pk", INT, Role.PARTITION),
        Column("ck", TEXT, Role.CLUSTERING),
        Column("st", INT, Role.STATIC),
        Column("a", INT),
        Column("b", TEXT),
        Column("c", TEXT),
    ),
)


@pytest.fixture
def raw(tmp_path: Path) -> RawTable:
    cells = {"a": Cell(5, 1, b"x"), "b": Cell(6, "y", b"y"), "c": Cell(6, "z", b"z")}
    facts = [Fact(FactKind.ROW, (i,), (str(i),), cells=cells) for i in range(50)]
    facts += [Fact(FactKind.STATIC, (i,), cells={"st": Cell(5, i, b"s")}) for i in range(50)]
    table = RawTable(str(tmp_path / "raw"), Relation(SCHEMA))
    write_deltalake(table.location, table.relation.rows(facts, landed_at=0))
    return table


def duckdb_scans(raw: RawTable, read: Read) -> list[str]:
    """The nodes of DuckDB's plan that read Parquet, each as one text."""
    with DuckDbEngine() as engine:
        ((_, text),) = engine.connection.execute("EXPLAIN (FORMAT json) " + engine.sql(read)).fetchall()
    told = [json.dumps(node["extra_info"]) for node in _nodes(json.loads(text))]
    return [scan for scan in told if "READ_PARQUET" in scan]


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    for node in plan if isinstance(plan, list) else [plan]:
        yield node
        yield from _nodes(node.get("children", []))


def test_duckdb_reads_the_values_of_two_columns_and_of_others_only_whether_they_show(raw: RawTable) -> None:
    rows, *_ = [s for s in duckdb_scans(raw, Read(raw, as_of=10, columns=("pk", "a"))) if "a.value" in s]
    assert "b.value" not in rows
    assert "c.value" not in rows
    assert "b.written" in rows  # rule W2: any live cell keeps its row


def test_duckdb_scans_one_partition_for_a_predicate_on_its_key(raw: RawTable) -> None:
    read = Read(raw, as_of=10, where="pk = 3 AND a > 0")
    scans = duckdb_scans(raw, read)
    assert len(scans) > 1
    assert [scan for scan in scans if "pk = 3" not in scan] == []
    with DuckDbEngine() as engine:
        found = list(rows_of(raw.relation, (), engine.read(read)))
    assert [(row["pk"], row["st"], row["a"]) for row in found] == [(3, 3, 1)]


def test_a_predicate_that_is_not_on_the_key_alone_is_no_reason_to_drop_facts(raw: RawTable) -> None:
    assert not any("pk = 3" in scan for scan in duckdb_scans(raw, Read(raw, as_of=10, where="pk = 3 OR a = 7")))


@pytest.mark.spark
def test_spark_reads_two_columns_of_one_partition(raw: RawTable, spark_engine: Any) -> None:
    spark_engine.session.conf.set("spark.sql.maxMetadataStringLength", 10_000)  # or it cuts the schema short
    frame = spark_engine.dataframe(Read(raw, as_of=10, columns=("pk", "a"), where="pk = 3"))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "EqualTo(pk,3)" in plan
    assert "a:struct<written:bigint,rank:bigint,value:int>" in plan
    assert "b:struct<written:bigint,rank:bigint>" in plan
