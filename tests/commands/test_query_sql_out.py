"""`query "SELECT …"` with --out and --into, and `Project.write`: the rows that the same query prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine
from helpers.tiny_project import event, make_project

from cdc_views import Project
from cdc_views.errors import UsageError

NAME = "shop.orders"
SQL = "SELECT state, count(*) AS n, sum(CAST(id AS DECIMAL(20, 2))) AS total FROM orders GROUP BY state ORDER BY state"
ROWS = [("open", 3), ("paid", 2)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Five orders."""
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    run = CommandLine(capsys)
    lines = [event(n, state="open" if n % 2 else "paid") for n in range(1, 6)]
    assert run.land(NAME, *lines, format="cassandra-mutation").code == 0
    return run


def states(rows: pa.Table) -> list[tuple[str, int]]:
    return sorted((row["state"], row["n"]) for row in rows.to_pylist())


def test_what_is_written_is_what_is_printed(run: CommandLine) -> None:
    check(run, "duckdb")


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_on_spark_too(run: CommandLine) -> None:
    check(run, "spark")


def check(run: CommandLine, engine: str) -> None:
    for name in ("rows.csv", "rows.jsonl", "rows.json"):
        assert run("query", SQL, "--out", name, "--engine", engine).code == 0
        printed = run("query", SQL, "--format", name.partition(".")[2], "--engine", engine).out
        assert Path(name).read_bytes().decode() == printed
    answer = run("query", SQL, "--out", "rows.parquet", "--engine", engine)
    assert (answer.code, answer.out) == (0, "")
    assert "rows.parquet: 2 rows as of " in answer.err
    assert states(pq.read_table("rows.parquet")) == ROWS
    assert "rows, version 0: 2 rows as of " in run("query", SQL, "--into", "rows", "--engine", engine).err
    assert states(DeltaTable("rows").to_pyarrow_table()) == ROWS
    for kind in (pq.read_schema("rows.parquet"), DeltaTable("rows").to_pyarrow_table().schema):
        assert pa.types.is_decimal(kind.field("total").type)


def test_what_is_there_stays_unless_it_may_be_replaced(run: CommandLine) -> None:
    for target, fewer in (("--out", "rows.parquet"), ("--into", "rows")):
        assert run("query", SQL, target, fewer).code == 0
        again = run("query", f"SELECT * FROM ({SQL}) WHERE n > 2", target, fewer)
        assert (again.code, "--overwrite" in again.err) == (2, True)
        assert run("query", f"SELECT * FROM ({SQL}) WHERE n > 2", target, fewer, "--overwrite").code == 0
    assert states(pq.read_table("rows.parquet")) == states(DeltaTable("rows").to_pyarrow_table()) == ROWS[:1]
    (commit, *_) = DeltaTable("rows").history(1)
    noted = json.loads(commit["cdc-views"])
    assert (noted["tables"], "SELECT" in json.dumps(commit)) == ([NAME], False)


WRONG: dict[str, tuple[str, list[str], str]] = {
    "a type of no file": ("SELECT INTERVAL 1 DAY AS d", ["--out", "x.parquet"], "Parquet does not have"),
    "a type of no table": ("SELECT TIME '10:00' AS t", ["--into", "x"], "Delta does not have"),
    "a name of no table": ("SELECT count(*) FROM orders", ["--into", "x"], "give it another, as … AS other"),
    "no ending": ("SELECT 1 AS one", ["--out", "x"], "the name tells no format"),
    "nothing to replace": ("SELECT 1 AS one", ["--overwrite"], "--overwrite is of --out or --into"),
    "both": ("SELECT 1 AS one", ["--out", "x.csv", "--into", "y"], "one of them"),
    "a value": ("SELECT CAST(state AS INT) AS n FROM orders", ["--out", "x.csv"], "open"),
    "a file": ("SELECT * FROM 'cdc_views.yml'", ["--out", "x.csv"], "cdc_views.yml"),
}


@pytest.mark.parametrize("how", WRONG)
def test_one_clear_error_and_nothing_is_left(run: CommandLine, how: str) -> None:
    sql, options, told = WRONG[how]
    before = sorted(Path().iterdir())
    answer = run("query", sql, *options)
    assert (answer.code, answer.err.count("error: "), told in answer.err) == (2, 1, True), answer.err
    assert sorted(path for path in Path().iterdir() if not path.is_dir() or any(path.iterdir())) == before


def test_the_method_writes_and_tells(run: CommandLine) -> None:
    project: Any = Project.load()
    written = project.write(SQL, out="rows.parquet", as_of=1_800_000_000)
    assert (written.location, written.rows, written.as_of, written.version) == ("rows.parquet", 2, 1_800_000_000, None)
    with pytest.raises(UsageError, match="--out"):
        project.write(SQL)
