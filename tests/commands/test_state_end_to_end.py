"""State through the command line, on real events: `query`, `apply` and `generate` give the same rows as without it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project
from helpers.tiers import often

pytestmark = pytest.mark.heavy

CASES = {"types3": "hid111.typed", "wide3": "hid211.orders", "names3": "hid311.OrderItems", "exotic3": "hid413.exotic"}
Setup = Callable[[str], list[list[str]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


def captured(folder: Path, name: str) -> list[list[str]]:
    """Write a project of one captured table; return each node's lines."""
    write_project(table(name, str(folder / "schema.cql"), "cassandra-mutation"))
    return [(folder / f"node{n}.jsonl").read_text("utf-8").splitlines() for n in (1, 2, 3)]


def rows(run: CommandLine, name: str, as_of: int, *more: str) -> list[str]:
    """The rows as texts, sorted."""
    answer = run("query", name, "--format", "jsonl", "--as-of", str(as_of), *more)
    assert answer.code == 0, answer.err
    return sorted(answer.out.splitlines())


@pytest.mark.parametrize("case", often(CASES, "names3"))
def test_state_shows_what_cassandra_showed(run: CommandLine, cassandra_cases: Path, case: str) -> None:
    name, folder = CASES[case], cassandra_cases / case
    instants = [json.loads((folder / f"expected_{which}.json").read_text())["as_of"] for which in ("early", "late")]
    for n, lines in enumerate(captured(folder, name)):
        assert run.land(name, *lines, format="cassandra-mutation", file=f"node{n}.jsonl").code == 0
        for instant in instants if n else ():
            assert rows(run, name, instant) == rows(run, name, instant, "--raw-only"), "state and tail"
        assert run("materialize").code == 0
    for instant, which in zip(instants, ("early", "late"), strict=True):
        at_rest = rows(run, name, instant)
        assert at_rest == rows(run, name, instant, "--raw-only"), "state at rest"
        answered = json.loads((folder / f"expected_{which}.json").read_text())["rows"]
        assert len(at_rest) == len(answered)
        assert json.loads(at_rest[0]).keys() == json.loads(answered[0]).keys(), "its own names"


@pytest.mark.heavy
def test_a_view_reads_state_and_what_landed_since(run: CommandLine, cassandra_cases: Path) -> None:
    name, folder = CASES["names3"], cassandra_cases / "names3"
    first, second, third = captured(folder, name)
    run.land(name, *first, format="cassandra-mutation", file="1.jsonl")
    assert run("apply").code == 0
    view = '"hid311"."OrderItems"'
    counted = []
    for lines, file in ((second, "2.jsonl"), (third, "3.jsonl")):
        assert run("materialize").code == 0
        assert run.land(name, *lines, format="cassandra-mutation", file=file).code == 0
        with duckdb.connect("warehouse/views.duckdb", read_only=True) as connection:
            sql = connection.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'OrderItems'").fetchall()[0][0]
            counted.append(connection.execute(f"SELECT count(*) FROM {view}").fetchall()[0][0])
        assert "warehouse/state/" in sql
        assert "untouched" in sql
    now = run("query", name, "--format", "jsonl", "--raw-only").out.splitlines()
    assert counted[-1] == len(now)
    assert "warehouse/state/" in run("generate", "--dialect", "duckdb").out
    on_spark = run("generate", "--dialect", "spark").out
    assert ("/state/" in on_spark, "untouched" in on_spark) == (True, False), "Spark's view merges everything"


@pytest.mark.heavy
def test_losers_are_asked_of_raw(run: CommandLine, cassandra_cases: Path) -> None:
    """What landed or was written later cannot be taken out of a state."""
    name, folder = CASES["names3"], cassandra_cases / "names3"
    lines = [line for node in captured(folder, name) for line in node]
    run.land(name, *lines, format="cassandra-mutation")
    now = json.loads((folder / "expected_early.json").read_text())["as_of"]
    times = sorted(int(found) // 1_000_000 for found in re.findall(r'"written": ?(\d+)', " ".join(lines)))
    middle = str(times[len(times) // 2])
    before = rows(run, name, now, "--written-as-of", middle)
    assert run("materialize").code == 0
    assert rows(run, name, now, "--written-as-of", middle) == before
    assert rows(run, name, now, "--landed-as-of", "0") == []
    assert before != rows(run, name, now)


def test_a_state_of_something_else_is_refused(run: CommandLine, cassandra_cases: Path) -> None:
    name, folder = CASES["names3"], cassandra_cases / "names3"
    run.land(name, *captured(folder, name)[0], format="cassandra-mutation")
    assert run("materialize").code == 0
    (state,) = Path("warehouse/state").glob("*/1")
    table_ = DeltaTable(str(state))
    table_.alter.set_table_description("somebody's table")
    answer = run("query", name)
    assert answer.code == 2
    assert "is a Delta table, but no state of cdc-views" in answer.err
