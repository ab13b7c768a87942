"""`spark.read.format("cdc_views")` shows what the oracle shows, of raw alone and of state and tail; CDC_VIEWS_HISTORIES as in
test_state.py.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from helpers.dialect_cases import REAL
from helpers.found_tables import hide_rows
from helpers.histories import NOW, histories
from helpers.projects import add
from helpers.reading import CASES, SEED
from helpers.schemas import NARROW
from helpers.spark_views import assert_shows, shown
from helpers.state_sizes import set_sizes
from helpers.tiers import often

from cdc_views import Project
from cdc_views.errors import UnsupportedError
from cdc_views.landing import create_raw
from cdc_views.model.types import Kind, Scalar
from cdc_views.plan.parts import Source
from cdc_views.rules.cells import Cell, Liveness
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import Fact, FactKind
from cdc_views.state import sources_of
from cdc_views.storage.relation_read import facts_of
from cdc_views.table import Table

pytest.importorskip("pyspark")

from cdc_views_spark import data_source
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from cdc_views_spark.engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.heavy]

CQL = "CREATE TABLE tests.narrow (case int, c int, s text static, v int, w float, e set<int>, PRIMARY KEY (case, c));"


@pytest.fixture
def session(spark_engine: SparkEngine) -> Any:
    """A session with the format."""
    data_source.register(spark_engine.session)
    return spark_engine.session


def project_in(folder: Path, schema: str, name: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Table:
    """A project whose schema is read from its file: Spark asks in processes of its own."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("schema.cql").write_text(schema)
    entry = {"name": name, "schema": "schema.cql", "raw": {"format": "cassandra-mutation"}, **more}
    Path("cdc_views.yml").write_text(json.dumps({"name": "tests", "engine": "duckdb", "tables": [entry]}))
    return Project.load().table(name)


@pytest.fixture
def narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table without events."""
    table = project_in(tmp_path / "narrow", CQL, "tests.narrow", monkeypatch)
    assert table.schema.columns == NARROW.schema.columns
    create_raw(table.raw, format_name=table.format.name)
    return table


def frame(session: Any, table: Table, *, as_of: int = NOW, **options: str) -> Any:
    file = str(table.project.file.resolve())
    return session.read.format("cdc_views").options(project=file, as_of=str(as_of), **options).load(table.name)


def check(session: Any, table: Table, *, as_of: int = NOW) -> None:
    """Compare with the oracle's rows of what has landed, and the columns with those of `Table.dataframe`."""
    facts = list(facts_of(table.raw.relation, DeltaTable(table.raw.location).to_pyarrow_table()))
    found = frame(session, table, as_of=as_of)
    assert found.schema == table.dataframe(session, as_of=as_of).schema
    assert_shows(table.schema, shown(found, table.schema), facts, now=as_of)


def test_it_shows_what_the_oracle_shows(session: Any, narrow: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = list(histories(NARROW, cases=min(CASES, 200), seed=SEED).facts)
    Random(SEED).shuffle(facts)
    half, most = len(facts) // 2, len(facts) * 3 // 4
    add(narrow, facts[:half])
    check(session, narrow)
    narrow.materialize()
    set_sizes(monkeypatch, at_once_share=0, merge_share=0, rebase_share=100, worn_share=2)
    add(narrow, facts[half:most])
    narrow.materialize()
    add(narrow, facts[most:])
    sources = sources_of(narrow.raw, narrow.state_location)
    assert sources is not None
    assert sources.parts.of(Source.ALL).masked, "the test met no hidden rows"
    check(session, narrow)


@pytest.mark.parametrize("name", often(REAL, "wide3"))
def test_of_real_events_it_shows_what_the_oracle_shows(
    session: Any, cassandra_cases: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cassandra_cases / name
    table = project_in(tmp_path / name, (folder / "schema.cql").read_text("utf-8"), REAL[name], monkeypatch)
    table.land(folder / "node1.jsonl", folder / "node2.jsonl")
    table.materialize()
    table.land(folder / "node3.jsonl")
    check(session, table, as_of=json.loads((folder / "expected_early.json").read_text("utf-8"))["as_of"])


def test_a_condition_and_later_landings_show(session: Any, narrow: Table) -> None:
    facts = [Fact(FactKind.ROW, (case,), (1,), liveness=Liveness(1)) for case in range(5)]
    add(narrow, facts[:3])
    found = frame(session, narrow, where='"case" >= 2')
    assert {row["case"] for row in found.collect()} == {2}
    assert found.rdd.getNumPartitions() == 1
    assert "pushFilters" not in vars(data_source.Scan), "a frame's filters read everything"
    add(narrow, facts[3:4])
    newer = frame(session, narrow, where='"case" >= 2')
    assert {row["case"] for row in newer.collect()} == {2, 3}, "new frames read the newest files"
    options = f"path '{narrow.name}', project '{narrow.project.file.resolve()}', as_of '{NOW}', where '\"case\" >= 2'"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW narrow_of_two USING cdc_views OPTIONS ({options})")
    assert {row["case"] for row in session.table("narrow_of_two").collect()} == {2, 3}
    add(narrow, facts[4:])
    seen = [{row["case"] for row in one.collect()} for one in (found, newer, session.table("narrow_of_two"))]
    assert seen == [{2}, {2, 3}, {2, 3}], "frames and views keep to their files"


def test_columns_have_the_types_that_the_project_file_gives(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cql = "CREATE TABLE shop.sums (id int PRIMARY KEY, total varint);"
    table = project_in(tmp_path / "sums", cql, "shop.sums", monkeypatch, columns={"total": "decimal(38, 0)"})
    create_raw(table.raw, format_name=table.format.name)
    cells = {"total": Cell(1, 7, serialize(Scalar(Kind.VARINT), 7))}
    add(table, [Fact(FactKind.ROW, (1,), liveness=Liveness(1), cells=cells)])
    for shown_by in (frame(session, table), table.dataframe(session)):
        assert shown_by.schema["total"].dataType.simpleString() == "decimal(38,0)"
        assert [tuple(row) for row in shown_by.collect()] == [(1, Decimal(7))]


def told(session: Any, table: Table, **options: str) -> str:
    with pytest.raises(PySparkException) as error:
        frame(session, table, **options).collect()
    return str(error.value)


def test_what_it_cannot_read_is_told(session: Any, narrow: Table) -> None:
    add(narrow, histories(NARROW, cases=4, seed=SEED).facts)
    assert "option 'strategy' is unknown; load(TABLE)" in told(session, narrow, strategy="auto")
    assert "nope" in told(session, narrow, where="nope = 1")


def test_large_tables_and_far_sessions_are_refused(narrow: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    add(narrow, histories(NARROW, cases=4, seed=SEED).facts)
    source = data_source.CdcViewsSource({"path": narrow.name})
    with monkeypatch.context() as patched:
        patched.setattr(data_source, "MOST_BYTES", 10)
        with pytest.raises(UnsupportedError, match=r"too many for one task.*\n?.*table\.dataframe\(spark\)"):
            source.schema()
    assert source.schema()
    hide_rows(narrow.location, 0)
    with pytest.raises(UnsupportedError, match="deletion vectors in raw"):
        source.schema()
    far: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://far:7077"))
    with pytest.raises(UnsupportedError, match="of this machine"):
        data_source.register(far)
