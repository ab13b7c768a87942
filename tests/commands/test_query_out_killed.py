"""`kill -9` in the middle of `query --out` or `--into` leaves what was there before, and the same command works afterwards."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine
from helpers.stopped_writes import kill_at
from helpers.tiers import often
from helpers.tiny_project import event, make_project

pytestmark = pytest.mark.heavy

NAME = "shop.orders"
ROWS = [1, 2, 3, 4, 5, 6]
BY_DUCKDB = ("some rows are written", "all rows are written")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Six rows in a project that is the working directory."""
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    run = CommandLine(capsys)
    assert run.land(NAME, *map(event, ROWS), format="cassandra-mutation").code == 0
    return run


def ids_in(path: Path) -> list[int]:
    if path.suffix == ".csv":
        return sorted(int(line.split(",")[0]) for line in path.read_text().splitlines()[1:])
    found = DeltaTable(path).to_pyarrow_table() if path.suffix == "" else pq.read_table(path)
    return sorted(found.column("id").to_pylist())


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("moment", often(BY_DUCKDB, "some rows are written"))
@pytest.mark.parametrize("name", often(["rows.csv", "rows.parquet"], "rows.parquet"))
def test_a_file_is_whole_or_not_there(run: CommandLine, tmp_path: Path, name: str, moment: str) -> None:
    before = visible(tmp_path)
    kill_at(moment, "query", NAME, "--out", name)
    assert visible(tmp_path) == before
    assert len(list(tmp_path.glob(f".{name}.*"))) == 1, "what it leaves is hidden"
    assert run("query", NAME, "--where", "id < 3", "--out", name).code == 0
    kill_at(moment, "query", NAME, "--out", name, "--overwrite")
    assert ids_in(Path(name)) == [1, 2]
    assert run("query", NAME, "--out", name, "--overwrite").code == 0
    assert ids_in(Path(name)) == ROWS


@pytest.mark.parametrize("moment", often(BY_DUCKDB, "all rows are written"))
def test_a_table_has_all_rows_or_those_of_before(run: CommandLine, moment: str) -> None:
    kill_at(moment, "query", NAME, "--into", "rows")
    assert not DeltaTable.is_deltatable("rows")
    assert run("query", NAME, "--where", "id < 3", "--into", "rows").code == 0
    kill_at(moment, "query", NAME, "--into", "rows", "--overwrite")
    assert (ids_in(Path("rows")), DeltaTable("rows").version()) == ([1, 2], 0)
    assert run("query", NAME, "--into", "rows", "--overwrite").code == 0
    assert (ids_in(Path("rows")), DeltaTable("rows").version()) == (ROWS, 1)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("target", [("--out", "rows.parquet"), ("--into", "rows")], ids=["out", "into"])
def test_spark_shows_all_rows_or_none(run: CommandLine, tmp_path: Path, target: tuple[str, str]) -> None:
    before = visible(tmp_path)
    kill_at("all rows of Spark are written", "query", NAME, "--engine", "spark", *target)
    if target[0] == "--out":
        assert visible(tmp_path) - {"spark"} == before
    else:
        assert not DeltaTable.is_deltatable("rows")
    assert run("query", NAME, *target).code == 0
    assert ids_in(Path(target[1])) == ROWS
