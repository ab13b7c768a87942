"""`cdc-views report` on a captured table: its figures are those that `validate`, `replicas` and the events themselves give."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import html5lib
import pytest
from deltalake import DeltaTable
from helpers.command_line import CommandLine, table, write_project

from cdc_views.api import Project
from cdc_views.formats.base import SourceLine
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.pages import wording
from cdc_views.pages.report import RunReport, pages_of
from cdc_views.rules.facts import Origin

pytestmark = pytest.mark.heavy

TABLE, CASE, AS_OF = "hid311.OrderItems", "names3", "1795254672"
STEM = "hid311_-4frder-49tems"
PAGE = f"{STEM}.html"


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """A folder without a project."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(capsys)


@pytest.fixture(scope="module")
def captured(cassandra_cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of the captured table, not to be changed: two replicas landed, then a state, then the third."""
    folder, case = tmp_path_factory.mktemp("captured"), cassandra_cases / CASE
    body = table(TABLE, str(case / "schema.cql"), "cassandra-mutation", replication_factor=3)
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [body]}), encoding="utf-8")
    target = Project.load(folder / "cdc_views.yml").table(TABLE)
    for number in (1, 2):
        target.land(case / f"node{number}.jsonl")
    target.materialize()
    target.land(case / "node3.jsonl")
    return folder


@pytest.fixture(scope="module")
def found(captured: Path) -> RunReport:
    return told(captured)


ROWS = [f"row-{number}" for number in range(1, 6)]


def told(folder: Path, **more: Any) -> RunReport:
    return Project.load(folder / "cdc_views.yml").report(folder / "told", as_of=AS_OF, now=1_800_000_000, **more)


@pytest.fixture
def run(captured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in that project."""
    monkeypatch.chdir(captured)
    return CommandLine(capsys)


@pytest.fixture
def own(captured: Path, bare: CommandLine) -> CommandLine:
    """The command line in a copy of that project."""
    shutil.copytree(captured, ".", dirs_exist_ok=True)
    return bare


def rows(answer_text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer_text.splitlines()]


@pytest.mark.slow
def test_its_figures_are_what_the_commands_say(run: CommandLine, found: RunReport, cassandra_cases: Path) -> None:
    (one,) = found.tables
    checks = rows(run("validate", "--no-docs", "--as-of", AS_OF, "--format", "jsonl").out)
    assert [(check.name, check.status.value) for check in one.checks] == [(c["check"], c["status"]) for c in checks]

    assert one.raw is not None
    schema = Project.load().table(TABLE).schema
    events = [line for n in (1, 2, 3) for line in (cassandra_cases / CASE / f"node{n}.jsonl").read_text("utf-8").splitlines()]
    facts = [fact for line in events for fact in CassandraMutation().decode(SourceLine(line), schema)]
    assert one.raw.facts == len(facts)
    files = DeltaTable(Project.load().table(TABLE).raw.location).file_uris()
    assert one.raw.extent.size == sum(Path(file).stat().st_size for file in files)
    assert one.raw.distinct == len({repr(replace(fact, origin=Origin())) for fact in facts})
    assert one.shown == len(run.query(TABLE, "--as-of", AS_OF))

    counted = rows(run("replicas", TABLE, "--format", "jsonl").out)
    assert one.replicas is not None
    assert dict(one.replicas.copies) == {row["copies"]: row["facts"] for row in counted if row["part"] == "copies"}
    assert [node.seen for node in one.replicas.nodes] == [row["facts"] for row in counted if row["part"] == "node"]

    assert one.state is not None
    assert one.state.tail is not None
    assert one.state.tail.rows == sum(landing.facts for landing in one.raw.landings[-1:])
    assert one.ages is not None
    assert one.ages.lacking == 1


@pytest.mark.slow
def test_the_pages_say_those_figures(run: CommandLine, found: RunReport, captured: Path) -> None:
    (one,) = found.tables
    assert one.raw is not None
    files = {file.name: file.read_text("utf-8") for file in (captured / "told").iterdir()}
    trees = {name: html5lib.parse(text, namespaceHTMLElements=False) for name, text in files.items()}
    text = " ".join(trees["index.html"].itertext())
    wanted = (one.raw.facts, one.raw.distinct, one.raw.removed, one.shown, one.replicas and one.replicas.facts)
    assert not [number for number in wanted if f"{number:,}" not in text]
    assert f"raw: {wording.size(one.raw.extent.size)}" in files["index.html"]
    (sql,) = trees[f"{STEM}-columns.html"].iter("pre")
    assert "".join(sql.itertext()).strip() == run("generate", "--dialect", "duckdb").out.strip()
    assert pages_of(told(captured)) == files  # the same on every run


def last_written(case: Path) -> list[int]:
    """The write times of the rows written last, by what the nodes logged."""
    newest: dict[str, int] = {}
    for line in (line for n in (1, 2, 3) for line in (case / f"node{n}.jsonl").read_text("utf-8").splitlines()):
        event = json.loads(line)
        for row in (row for row in event.get("rows", ()) if row["kind"] == "row"):
            key = json.dumps([event["partition"], row["clustering"]])
            newest[key] = max(newest.get(key, 0), *map(int, re.findall(r'"written": (\d+)', json.dumps(row))))
    return sorted(newest.values(), reverse=True)


def test_a_row_is_explained_as_explain_does(own: CommandLine, found: RunReport, cassandra_cases: Path) -> None:
    checks = found.tables[0].checks
    results = [asdict(check) | {"table": TABLE, "check": check.name, "status": check.status.value} for check in checks]
    Path("results.json").write_text(json.dumps(results), encoding="utf-8")
    again = told(Path(), with_values=True, recent=2, results=Path("results.json"))
    for row in again.tables[0].recent:
        answer = own("explain", TABLE, "--key", row.key, "--as-of", AS_OF, "--format", "jsonl")
        assert [{name: json.loads(text) for name, text in one.items()} for one in row.rows] == rows(answer.out)
    assert [row.written for row in again.tables[0].recent] == last_written(cassandra_cases / CASE)[:2]
    assert again.tables[0].checks == checks


def test_failed_tests_are_told_in_one_line_and_the_exit_code_is_0(own: CommandLine) -> None:
    body = json.loads(Path("cdc_views.yml").read_text("utf-8"))
    body["tables"][0]["tests"] = [{"name": "never", "holds": "1 = 2"}]
    Path("cdc_views.yml").write_text(json.dumps(body), encoding="utf-8")
    assert own("validate", "--no-docs", "--as-of", AS_OF, "--json", "results.json").code == 1
    del body["tables"][0]["tests"]  # a new run would find nothing that fails
    Path("cdc_views.yml").write_text(json.dumps(body), encoding="utf-8")
    asked = ("--from", "results.json", "--recent", "3", "--dialect", "spark")
    answer = own("report", "--out", "site", "--as-of", AS_OF, *asked, "--format", "jsonl")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        f"warning: 1 test did not hold, the first: {TABLE}: never; the report lists them",
        f"wrote {Path('site/index.html')}",
    ]
    ended = [check["status"] for check in json.loads(Path("results.json").read_text("utf-8"))]
    counts = {"passed": ended.count("passed"), "failed": 1, "warnings": 0, "skipped": ended.count("skipped")}
    assert rows(answer.out) == [{"table": TABLE, "page": PAGE, **counts}]
    pages = [f"{STEM}-{page}.html" for page in ("columns", "landings", "proof", "quarantine", "tests", *ROWS[:3])]
    assert sorted(path.name for path in Path("site").iterdir()) == sorted([PAGE, "index.html", *pages])
    (sql,) = html5lib.parse(Path(f"site/{STEM}-columns.html").read_text("utf-8"), namespaceHTMLElements=False).iter("pre")
    assert "".join(sql.itertext()).strip() == own("generate", "--dialect", "spark").out.strip()
    shown = json.dumps(own.query(TABLE, "--as-of", AS_OF), ensure_ascii=False)
    told = "".join(path.read_text("utf-8") for path in Path("site").iterdir())
    assert [(value in shown, value in told) for value in ("日本", "DROP TABLE x")] == [(True, False)] * 2


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


def test_a_table_that_cannot_be_read_ends_with_3(own: CommandLine) -> None:
    (next(Path("warehouse/raw").glob("*/_delta_log")) / "00000000000000000001.json").write_text("{")
    answer = own("report", "--out", "site", "--as-of", AS_OF)
    assert answer.code == 3
    assert not Path("site").exists()


def page_of(report: RunReport) -> str:
    """What the pages of the only table say."""
    pages = [text for name, text in pages_of(report).items() if name != "index.html"]
    texts = ("".join(html5lib.parse(text, namespaceHTMLElements=False).itertext()) for text in pages)
    return " ".join(" ".join(texts).split())


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
    assert "Events of debezium do not say which replica they come from" in page
    assert "EXACT-IF" in page


@pytest.mark.slow
def test_what_raw_no_longer_has_is_said(bare: CommandLine, cassandra_cases: Path) -> None:
    folder = cassandra_cases / CASE
    write_project(table(TABLE, str(folder / "schema.cql"), "cassandra-mutation", replication_factor=3))
    target = Project.load().table(TABLE)
    target.land(folder / "node1.jsonl", now=datetime.now(timezone.utc) - timedelta(days=40))
    assert bare("materialize").code == 0
    target.land(folder / "node2.jsonl")
    before = told(Path()).tables[0]
    assert bare("maintain", "--drop-raw-older-than", "30d").code == 0
    found = told(Path())
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
    assert "events were dropped from raw, so that this would be wrong." in page
    assert "None to explain: events were dropped from raw" in page
