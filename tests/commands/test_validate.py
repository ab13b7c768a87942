"""`cdc-views validate` as people call it: exit codes, JUnit, JSON, Data Docs without values, bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from helpers.command_line import CommandLine, table, write_project

from cdc_views.landing.spreading import Tasks, in_this_process
from cdc_views.plan import order
from cdc_views.plan.expr import TRUE
from cdc_views.quality import validating

CQL = "CREATE TABLE shop.orders (id int PRIMARY KEY, state text, note text);\n"
SECRET = "a value that nobody is to read"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in a project of one table, with three rows landed."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL)
    project([])
    run = CommandLine(capsys)
    assert run.land("shop.orders", *(mutation(n) for n in range(3)), format="cassandra-mutation").code == 0
    return run


def project(tests: list[dict[str, Any]], **more: Any) -> None:
    """Write the project file."""
    write_project(table("shop.orders", "schema.cql", "cassandra-mutation", tests=tests, **more))


def mutation(number: int) -> str:
    cells = [{"column": "state", "written": 1, "value": "open"}, {"column": "note", "written": 1, "value": SECRET}]
    rows = [{"kind": "row", "clustering": {}, "liveness": {"written": 1}, "cells": cells}]
    at = {"node": "n", "segment": 1, "position": number, "keyspace": "shop", "table": "orders", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **at, "rows": rows})


def test_it_needs_no_state(run: CommandLine) -> None:
    answer = run("validate", "--no-docs", "--format", "jsonl")
    assert answer.code == 0, answer.err
    found = {row["check"]: row["status"] for row in map(json.loads, answer.out.splitlines())}
    assert found["one_row_per_key"] == "passed"
    assert (found["sample_equals_oracle"], found["deletions_are_kept"]) == ("passed", "skipped")


def test_without_a_state_an_engine_that_forgets_deletions_is_found(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    event = json.loads(mutation(1))
    event["position"], event["rows"] = 99, [{"kind": "row", "clustering": {}, "deletion": {"written": 5, "deleted_at": 1}}]
    assert run.land("shop.orders", json.dumps(event), format="cassandra-mutation").code == 0
    assert run("validate", "--no-docs").code == 0
    monkeypatch.setattr(order, "survives", lambda *_: TRUE)
    answer = run("validate", "--no-docs", "--format", "jsonl")
    (found,) = (row for row in map(json.loads, answer.out.splitlines()) if row["check"] == "sample_equals_oracle")
    assert (answer.code, found["status"]) == (1, "failed"), answer.out
    assert "the row is not expected" in found["result"]


def test_a_failure_says_what_and_exits_1(run: CommandLine) -> None:
    project([{"name": "all_are_paid", "holds": "state = 'paid'"}])
    answer = run("validate", "--no-docs", "--junit", "results.xml", "--json", "results.json")
    assert answer.code == 1
    assert "shop.orders: all_are_paid" in answer.err
    assert "3 rows" in answer.err
    suite = ET.parse("results.xml").getroot()[0]
    assert (suite.get("name"), suite.get("failures")) == ("shop.orders", "1")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["all_are_paid"]
    records = {record["check"]: record for record in json.loads(Path("results.json").read_text())}
    assert records["all_are_paid"]["broken"] == 3
    assert len(records) == len(suite)
    assert not Path("warehouse/quality").exists(), "no Data Docs"


def test_the_sources_answer_may_be_a_row_a_line(run: CommandLine) -> None:
    project([{"truth": "answers.jsonl", "as_of": 1_700_000_000}])
    for state, expected in (("open", (0, "passed")), ("another secret", (1, "failed"))):
        rows = [{"id": n, "state": state if n == 2 else "open", "note": SECRET} for n in range(3)]
        Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        answer = run("validate", "--no-docs", "--format", "jsonl")
        (found,) = (row for row in map(json.loads, answer.out.splitlines()) if row["check"].startswith("agrees_with_source"))
        assert (answer.code, found["status"]) == expected
        assert "secret" not in answer.out + answer.err
    assert '{"id": 2}: column state differs' in found["result"]


def test_a_warning_fails_only_where_asked(run: CommandLine) -> None:
    project([{"name": "all_are_paid", "holds": "state = 'paid'", "severity": "warning"}])
    assert run("validate", "--no-docs").code == 0
    assert run("validate", "--no-docs", "--fail-on", "warning").code == 1


@pytest.mark.heavy
def test_each_limit_of_freshness_has_its_own_severity(run: CommandLine) -> None:
    project([{"fresh_within": "0s", "severity": "warning"}, {"fresh_within": "10d"}, {"name": "at_once", "fresh_within": "0s"}])
    time.sleep(1.1)  # ages are whole seconds
    answer = run("validate", "--no-docs", "--format", "jsonl")
    assert answer.code == 1
    found = {row["check"]: (row["status"], row["severity"]) for row in map(json.loads, answer.out.splitlines())}
    assert {name: found[name] for name in found if name.startswith("freshness")} == {
        "freshness.0s": ("failed", "warning"),
        "freshness.864000s": ("passed", "error"),
        "freshness.at_once": ("failed", "error"),
    }


def test_two_tests_of_one_name_are_told(run: CommandLine) -> None:
    project([{"name": "paid", "holds": "state = 'paid'"}, {"name": "paid", "holds": "note IS NULL"}])
    answer = run("validate", "--no-docs")
    assert answer.code == 2
    assert "shop.orders: two data tests are called 'paid'; give each a `name` of its own" in answer.err


@pytest.mark.slow
def test_data_docs_are_a_site_that_holds_no_values(run: CommandLine) -> None:
    project([{"name": "all_are_paid", "holds": "state = 'paid'"}])
    for _ in range(2):  # a second run adds to what the first one made
        # a process of its own: pyspark, which Great Expectations imports, ends one that has no main module
        answer = subprocess.run([sys.executable, "-m", "cdc_views", "validate"], capture_output=True, text=True, check=False)
        assert answer.returncode == 1, answer.stderr
    index = Path(re.findall(r"Data Docs: (.*)", answer.stderr)[-1])
    pages = {page.relative_to(index.parent): page.read_text("utf-8") for page in index.parent.rglob("*.html")}
    assert {"index.html", "expectations", "validations"} <= {page.parts[0] for page in pages}
    failing = [text for page, text in pages.items() if page.parts[0] == "validations" and "all_are_paid" in text]
    assert len(failing) == 2, "a page of each run, of the one suite that holds the test"
    assert all("Failed" in text for text in failing)
    assert not [page for page, text in pages.items() if SECRET in text]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--fail-on", "eror"], "did you mean 'error'"),
        (["--select", "shop.order"], "did you mean 'shop.orders'"),
        (["--as-of", "soon"], "soon"),
        (["--engine", "duck"], "duck"),
    ],
)
def test_bad_input_is_told(run: CommandLine, options: list[str], told: str) -> None:
    answer = run("validate", "--no-docs", *options)
    assert answer.code == 2
    assert told in answer.err


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ({"holds": "state = 'paid'"}, "needs a `name`"),
        ({"not_null": True}, "`column` goes with"),
        ({"column": "state", "not_null": True, "one_of": ["a"]}, "exactly one of"),
        ({"column": "stat", "not_null": True}, "stat"),
        ({"name": "x", "holds": "count(*) > 1"}, "count"),
        ({"fresh_within": "an hour"}, "s, m, h or d"),
        ({"truth": "nowhere.json"}, "nowhere.json"),
        ({"truth": "events.jsonl"}, "give `as_of`, in epoch seconds, beside `truth`"),
    ],
)
def test_a_test_that_is_none_is_told(run: CommandLine, test: dict[str, Any], told: str) -> None:
    project([test])
    answer = run("validate", "--no-docs")
    assert answer.code == 2, answer.err
    assert told in answer.err


def test_nothing_landed_is_told(run: CommandLine, tmp_path: Path) -> None:
    Path("other.cql").write_text(CQL.replace("orders", "items"))
    write_project(table("shop.items", "other.cql", "cassandra-mutation"))
    answer = run("validate", "--no-docs")
    assert answer.code == 2
    assert "land" in answer.err


def test_without_a_state_much_raw_is_not_read_on_this_machine(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validating, "HERE", Tasks(in_this_process, 1))
    answer = run("validate", "--no-docs", "--format", "jsonl")
    (found,) = (row for row in map(json.loads, answer.out.splitlines()) if row["check"] == "sample_equals_oracle")
    assert (answer.code, found["status"]) == (0, "skipped")
    assert "run `cdc-views materialize`" in found["result"]
