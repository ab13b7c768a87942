"""`query --out` and `--into` hold the rows that `query` prints: real tables of Cassandra, PostgreSQL and MariaDB."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project
from helpers.tiers import often
from helpers.written_rows import expected_of, lines_of

from cdc_views import Project
from cdc_views.table import Table

pytestmark = pytest.mark.heavy

DATA = Path(__file__).parents[1] / "data"
NOW = 1795254672
CASSANDRA = {"types3": "hid111.typed", "wide3": "hid211.orders", "names3": "hid311.OrderItems", "exotic3": "hid413.exotic"}
DEBEZIUM = {
    "postgres": ("public.t_types", "debezium/postgres_schema.sql", "debezium_pg_default", '"status"'),
    "mariadb": ("lab.t_types", "debezium/mariadb_schema.sql", "debezium_mariadb_default", '"extra"'),
}
CASES = (*CASSANDRA, *DEBEZIUM)


@pytest.fixture
def landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cassandra_cases: Path
) -> Callable[..., Table]:
    """Land a real table, half of it before its state is made."""
    monkeypatch.chdir(tmp_path)
    run = CommandLine(capsys)

    def make(case: str, *, lost: int = 0) -> Table:
        if case in CASSANDRA:
            name, schema, format = CASSANDRA[case], cassandra_cases / case / "schema.cql", "cassandra-mutation"
            lines = [line for n in (1, 2, 3) for line in (cassandra_cases / case / f"node{n}.jsonl").read_text().splitlines()]
        else:
            name, ddl, file, later = DEBEZIUM[case]
            schema, format = DATA / ddl, "debezium"
            lines = (DATA / "debezium" / f"{file}.jsonl").read_text().splitlines()
            lines = [line for line in lines if json.loads(line)["destination"].endswith(".t_types") and later not in line]
            lines = lines[:4] if case == "postgres" else lines
        write_project(table(name, str(schema), format, **({"replication_factor": 4} if case == "wide3" else {})))
        lines = lines[: len(lines) - lost]
        half = max(2, len(lines) // 2)
        assert run.land(name, *lines[:half], format=format, file="1.jsonl").code == 0
        found = Project.load("cdc_views.yml").table(name)
        found.materialize()
        assert run.land(name, *lines[half:], format=format, file="2.jsonl").code == 0
        return found

    return make


def _parquet(target: Table, **asked: str) -> pa.Table:
    target.write(out="rows.parquet", as_of=NOW, **asked)
    return pq.read_table("rows.parquet")


def _delta(target: Table, **asked: str) -> pa.Table:
    target.write(into="rows", as_of=NOW, **asked)
    return DeltaTable("rows").to_pyarrow_table()


KINDS = {"parquet": _parquet, "delta": _delta}
WRITES = tuple(product(CASES, KINDS))
FILES = tuple((case, "parquet") for case in CASES if case not in ("wide3", "exotic3"))
TABLES = (("names3", "delta"), ("postgres", "delta"))
"""What `make test` writes: the columns are the same in both kinds."""


def check(target: Table, run: CommandLine, kind: str, *, engine: str, strategy: str = "auto") -> None:
    """Compare what was written with what is printed."""
    expected, written = expected_of(target, as_of=NOW), KINDS[kind](target, engine=engine, strategy=strategy)
    found = lines_of(target, written)
    assert found == expected
    printed = run("query", target.name, "--as-of", str(NOW), "--format", "jsonl").out.splitlines(keepends=True)
    assert len(printed) == written.num_rows > 1
    assert set(printed).intersection(found), "a row of values that each column holds"


@pytest.mark.parametrize(("case", "kind"), often(WRITES, *FILES, *TABLES))
def test_duckdb_writes_what_is_printed(
    landed: Callable[..., Table], capsys: pytest.CaptureFixture[str], case: str, kind: str
) -> None:
    check(landed(case), CommandLine(capsys), kind, engine="duckdb")


def test_confirmed_rows(landed: Callable[..., Table]) -> None:
    """The last mutations of one of three replicas are lost, and three make a quorum."""
    target = landed("wide3", lost=400)
    expected = expected_of(target, as_of=NOW, confirmed=True)
    target.write(out="rows.parquet", as_of=NOW, confirmed=True)
    assert lines_of(target, pq.read_table("rows.parquet")) == expected != expected_of(target, as_of=NOW)
    target.write(into="rows", as_of=NOW, confirmed=True)
    assert lines_of(target, DeltaTable("rows").to_pyarrow_table()) == expected


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
@pytest.mark.parametrize(("case", "kind"), often(WRITES, FILES[0], *TABLES[1:]))
def test_spark_writes_what_is_printed(
    landed: Callable[..., Table], capsys: pytest.CaptureFixture[str], case: str, kind: str
) -> None:
    check(landed(case), CommandLine(capsys), kind, engine="spark")


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
@pytest.mark.parametrize("case", often(CASES, "names3"))
def test_a_plan_of_spark_writes_what_is_printed(
    landed: Callable[..., Table], capsys: pytest.CaptureFixture[str], case: str
) -> None:
    check(landed(case), CommandLine(capsys), "parquet", engine="spark", strategy="aggregate")
