"""Serving tables through the project file and the command line, on real events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project
from helpers.serving import assert_serves, served
from helpers.tiers import often

from cdc_views import Project
from cdc_views.engines.duckdb.engine import DuckDbEngine

pytestmark = pytest.mark.heavy

CASES = {"types3": "hid111.typed", "wide3": "hid211.orders", "names3": "hid311.OrderItems", "exotic3": "hid413.exotic"}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


def project(case: Path, name: str, serving: Any = True, **more: Any) -> list[list[str]]:
    """Write a project of one captured table that has a serving table; return each node's lines."""
    write_project(table(name, str(case / "schema.cql"), "cassandra-mutation", materialize={"serving": serving}, **more))
    return [(case / f"node{n}.jsonl").read_text("utf-8").splitlines() for n in (1, 2, 3)]


@pytest.mark.parametrize("case", often(CASES, "names3", "types3"))
def test_it_shows_what_cassandra_showed(run: CommandLine, duckdb_engine: DuckDbEngine, cassandra_cases: Path, case: str) -> None:
    name, folder = CASES[case], cassandra_cases / case
    answers = [json.loads((folder / f"expected_{which}.json").read_text()) for which in ("early", "late")]
    shop = Project.load("cdc_views.yml") if (nodes := project(folder, name)) else None
    assert shop is not None
    kept = shop.table(name)
    assert kept.serving_location == str(Path("warehouse/serving").absolute() / kept.config.slug)
    for n, lines in enumerate((nodes[0] + nodes[1], nodes[2])):
        assert run.land(name, *lines, format="cassandra-mutation", file=f"nodes{n}.jsonl").code == 0
        if not n:
            kept.materialize(now=answers[0]["as_of"] - 1)
    for answer in answers:
        kept.materialize(now=answer["as_of"])
        assert_serves(duckdb_engine, kept.serving_location, kept.raw, now=answer["as_of"])
        assert len(served(duckdb_engine, kept.serving_location, kept.raw)) == len(answer["rows"])


def test_a_run_says_what_became_of_it(run: CommandLine, cassandra_cases: Path) -> None:
    name = CASES["names3"]
    first, second, _ = project(cassandra_cases / "names3", name, serving={"name": "items"})
    run.land(name, *first, format="cassandra-mutation", file="1.jsonl")
    outcomes = [run("materialize", "--format", "jsonl") for _ in range(2)]
    run.land(name, *second, format="cassandra-mutation", file="2.jsonl")
    outcomes += [run("materialize", *more, "--format", "jsonl") for more in ((), ("--full",))]
    told = [answer.rows[0]["outcome"].split("; ")[-1] for answer in outcomes]
    assert [answer.rows[0]["is_new"] for answer in outcomes] == [True, False, True, True]
    assert told[0].startswith("serving table written (it held nothing of this state): ")
    assert told[1].startswith("serving table is up to date: ")
    assert told[2].startswith("serving table brought up to date in 1 buckets: ")
    assert told[3].startswith("serving table written (as asked for): ")
    serving = DeltaTable("warehouse/serving/items")
    assert [field.name for field in serving.schema().fields][-2:] == ["_changes_at", "_part"]
    kept = {row["what"]: row for row in run("maintain", "--format", "jsonl").rows}
    assert kept["serving"]["location"].endswith("serving/items")


def test_without_being_asked_for_there_is_none(run: CommandLine, cassandra_cases: Path) -> None:
    name = CASES["names3"]
    lines = project(cassandra_cases / "names3", name, serving=False)[0]
    run.land(name, *lines, format="cassandra-mutation")
    assert run("materialize").code == 0
    assert not Path("warehouse/serving").exists()


@pytest.mark.parametrize(
    ("serving", "expected"),
    [
        ("yes please", "materialize.serving is 'yes please'; "),
        ({"nam": "x"}, "unknown key 'nam' in tables[0].materialize.serving; did you mean 'name'?"),
        ({"name": "../raw"}, "the name of a folder was expected"),
    ],
)
def test_a_wrong_setting_is_refused(run: CommandLine, cassandra_cases: Path, serving: Any, expected: str) -> None:
    project(cassandra_cases / "names3", CASES["names3"], serving=serving)
    answer = run("materialize")
    assert answer.code == 2
    assert expected in answer.err


def test_two_tables_cannot_share_one(run: CommandLine) -> None:
    shared = {"serving": {"name": "orders"}}
    write_project(*(table(name, "s.cql", "cassandra-mutation", materialize=shared) for name in ("a.b", "a.c")))
    answer = run("materialize")
    assert answer.code == 2
    assert "serving table 'orders' occurs twice" in answer.err


def test_something_else_in_its_place_is_refused(run: CommandLine, cassandra_cases: Path) -> None:
    name = CASES["names3"]
    lines = project(cassandra_cases / "names3", name, serving={"name": "items"})[0]
    run.land(name, *lines, format="cassandra-mutation")
    Path("warehouse/serving").mkdir(parents=True, exist_ok=True)
    Path("warehouse/serving/items").write_text("mine")
    answer = run("materialize")
    assert answer.code == 2
    assert "the serving table of hid311.OrderItems" in answer.err
    assert "is a file" in answer.err
    assert Path("warehouse/serving/items").read_text() == "mine"
