"""`cdc-views report` on a captured table: its figures are those that `validate`, `replicas` and the events themselves give."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import html5lib
import pytest
from command_line import CommandLine, table, write_project

from cdc_views.api import Project
from cdc_views.facts import Origin
from cdc_views.raw.base import SourceLine
from cdc_views.raw.cassandra_mutation import CassandraMutation
from cdc_views.report import RunReport, pages_of

pytestmark = pytest.mark.heavy

TABLE, CASE, AS_OF = "hid311.OrderItems", "names3", "1795254672"
PAGE = "hid311_-4frder-49tems.html"


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A folder without a project."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture
def run(bare: CommandLine, cassandra_cases: Path) -> CommandLine:
    """A project of the captured table: two replicas landed, then a state, then the third."""
    folder = cassandra_cases / CASE
    write_project(table(TABLE, str(folder / "schema.cql"), "cassandra-mutation", replication_factor=3))
    nodes = [str(folder / f"node{number}.jsonl") for number in (1, 2, 3)]
    assert bare("land", "cassandra-mutation", *nodes[:2], "--table", TABLE).code == 0
    assert bare("materialize").code == 0
    assert bare("land", "cassandra-mutation", nodes[2], "--table", TABLE).code == 0
    return bare


def rows(answer_text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer_text.splitlines()]


def test_its_figures_are_what_the_commands_say(run: CommandLine, cassandra_cases: Path) -> None:
    answer = run("report", "--out", "site", "--as-of", AS_OF, "--format", "jsonl")
    assert (answer.code, answer.err) == (0, f"wrote {Path('site/index.html')}\n")
    checks = rows(run("validate", "--no-docs", "--as-of", AS_OF, "--json", "results.json", "--format", "jsonl").out)
    ended = {status: sum(check["status"] == status for check in checks) for status in ("passed", "failed", "skipped")}
    assert rows(answer.out) == [{"table": TABLE, "page": PAGE, **ended, "warnings": 0}]
    assert sorted(path.name for path in Path("site").iterdir()) == sorted([PAGE, "index.html"])

    (found,) = told().tables
    assert [(check.name, check.status.value) for check in found.checks] == [(c["check"], c["status"]) for c in checks]
    assert found.raw is not None
    schema = Project.load().table(TABLE).schema
    events = [line for n in (1, 2, 3) for line in (cassandra_cases / CASE / f"node{n}.jsonl").read_text("utf-8").splitlines()]
    facts = [fact for line in events for fact in CassandraMutation().decode(SourceLine(line), schema)]
    assert found.raw.facts == len(facts)
    assert found.raw.distinct == len({repr(replace(fact, origin=Origin())) for fact in facts})
    assert found.shown == len(run.query(TABLE, "--as-of", AS_OF))

    counted = rows(run("replicas", TABLE, "--format", "jsonl").out)
    assert found.replicas is not None
    assert dict(found.replicas.copies) == {row["copies"]: row["facts"] for row in counted if row["part"] == "copies"}
    assert [node.seen for node in found.replicas.nodes] == [row["facts"] for row in counted if row["part"] == "node"]

    assert found.state is not None
    assert found.state.tail_facts == sum(landing.facts for landing in found.raw.landings[1:])
    assert found.ages is not None
    assert found.ages.versions == 1


def told() -> RunReport:
    return Project.load().report("told", as_of=AS_OF, now=1_800_000_000)


def test_the_pages_say_those_figures(run: CommandLine) -> None:
    found = told()
    assert pages_of(found) == pages_of(told())  # the same on every run
    (one,) = found.tables
    assert one.raw is not None
    text = " ".join(html5lib.parse(Path("told/index.html").read_text("utf-8"), namespaceHTMLElements=False).itertext())
    wanted = (one.raw.facts, one.raw.distinct, one.raw.removed, one.shown, one.replicas and one.replicas.facts)
    assert not [number for number in wanted if f"{number:,}" not in text]
    page = html5lib.parse(Path("told", PAGE).read_text("utf-8"), namespaceHTMLElements=False)
    (sql,) = (pre for pre in page.iter("pre"))
    assert sql.text.strip() == run("generate", "--dialect", "duckdb").out.strip()


def test_a_row_is_explained_as_explain_does(run: CommandLine) -> None:
    found = Project.load().report("told", as_of=AS_OF, with_values=True, recent=2)
    for row in found.tables[0].recent:
        answer = run("explain", TABLE, "--key", row.key, "--as-of", AS_OF, "--format", "jsonl")
        assert [{name: json.loads(text) for name, text in one.items()} for one in row.rows] == rows(answer.out)
    assert len(found.tables[0].recent) == 2


def test_failed_tests_are_told_in_one_line_and_the_exit_code_is_0(run: CommandLine) -> None:
    body = json.loads(Path("cdc_views.yml").read_text("utf-8"))
    body["tables"][0]["tests"] = [{"name": "never", "holds": "1 = 2"}]
    Path("cdc_views.yml").write_text(json.dumps(body), encoding="utf-8")
    answer = run("report", "--out", "site", "--as-of", AS_OF)
    assert answer.code == 0
    assert answer.err.splitlines()[0] == f"warning: 1 test did not hold, the first: {TABLE}: never; the report lists them"

    assert run("validate", "--no-docs", "--as-of", AS_OF, "--json", "results.json").code == 1
    again = run("report", "--out", "again", "--as-of", AS_OF, "--from", "results.json")
    assert (again.code, again.out) == (0, answer.out)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ([], 2, "--out"),
        (["--out", "site", "--from", "nowhere.json"], 2, "nowhere.json"),
        (["--out", "site", "--dialect", "duckbd"], 2, "duckdb"),
        (["--out", "site", "--select", "hid311.Order"], 2, "did you mean"),
        (["--out", "site", "--as-of", "soon"], 2, "soon"),
        (["--out", "cdc_views.yml"], 2, "name a folder"),
    ],
)
def test_bad_input_is_told(bare: CommandLine, options: list[str], code: int, said: str) -> None:
    Path("schema.cql").write_text('CREATE TABLE hid311."OrderItems" (id int PRIMARY KEY);\n')
    write_project(table(TABLE, "schema.cql", "cassandra-mutation"))
    answer = bare("report", *options)
    assert answer.code == code
    assert said in answer.err
    assert not Path("site").exists()


def test_a_table_that_cannot_be_read_ends_with_3(run: CommandLine) -> None:
    (next(Path("raw").glob("*/_delta_log")) / "00000000000000000001.json").write_text("{")
    answer = run("report", "--out", "site", "--as-of", AS_OF)
    assert answer.code == 3
    assert not Path("site").exists()


def page_of(report: RunReport) -> str:
    """What the page of the only table says."""
    (table,) = report.tables
    text = html5lib.parse(pages_of(report)[table.page], namespaceHTMLElements=False).itertext()
    return " ".join("".join(text).split())


def test_a_log_has_positions_and_no_replicas(bare: CommandLine) -> None:
    data = Path(__file__).parents[1] / "data" / "debezium"
    Path("schema.sql").write_text((data / "postgres_schema.sql").read_text("utf-8"), encoding="utf-8")
    write_project(table("public.t_types", "schema.sql"))
    lines = (data / "debezium_pg_default.jsonl").read_text("utf-8").splitlines()
    bare.land("public.t_types", *(line for line in lines if json.loads(line)["destination"].endswith(".t_types")))
    found = Project.load().report("told", as_of=AS_OF)
    assert found.tables[0].replicas is None
    page = page_of(found)
    assert "written at position " in page
    assert "events of debezium do not say which replica they come from" in page
    assert "EXACT-IF" in page


def test_what_raw_no_longer_has_is_said(bare: CommandLine, cassandra_cases: Path) -> None:
    folder = cassandra_cases / CASE
    write_project(table(TABLE, str(folder / "schema.cql"), "cassandra-mutation", replication_factor=3))
    target = Project.load().table(TABLE)
    target.land(folder / "node1.jsonl", now=datetime.now(timezone.utc) - timedelta(days=40))
    assert bare("materialize").code == 0
    target.land(folder / "node2.jsonl")
    before = told().tables[0]
    assert bare("maintain", "--drop-raw-older-than", "30d").code == 0
    found = told()
    (one,) = found.tables
    assert one.shown == before.shown
    ended = {check.name: check.status.value for check in one.checks}
    assert "failed" not in ended.values()
    assert {name for name, how in ended.items() if how == "skipped"} == {
        "replica_coverage", "sample_equals_oracle", "deletions_are_kept",
    }  # fmt: skip
    assert one.raw is not None
    assert before.raw is not None
    assert one.raw.facts == before.raw.landings[1].facts
    page = page_of(found)
    assert "were dropped from raw; figures of raw are about those since" in page
    assert "Not counted: events were dropped from raw" in page
    assert "None to explain: events were dropped from raw" in page
