"""`cdc-views contract` and `validate --contract` as people call them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.command_line import CommandLine, table, write_project

CQL = """
CREATE TABLE shop.orders (id int PRIMARY KEY, state text, note text);
CREATE TABLE shop."Line Items" (id int PRIMARY KEY);
"""
SECRET = "a value that nobody is to read"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line in a project of two tables, with two rows landed in the first."""
    monkeypatch.chdir(tmp_path)
    Path("schema.cql").write_text(CQL)
    tests = [{"column": "state", "one_of": ["open", "paid"]}]
    tables = table("shop.orders", "schema.cql", "cassandra-mutation", tests=tests), table("shop.Line Items", "schema.cql")
    write_project(tables[0], tables[1] | {"raw": {"format": "cassandra-mutation"}})
    run = CommandLine(capsys)
    assert run.land("shop.orders", mutation(1), mutation(2), format="cassandra-mutation").code == 0
    return run


def mutation(number: int) -> str:
    cells = [{"column": "state", "written": 1, "value": "open"}, {"column": "note", "written": 1, "value": SECRET}]
    rows = [{"kind": "row", "clustering": {}, "liveness": {"written": 1}, "cells": cells[: 3 - number]}]
    at = {"node": "n", "segment": 1, "position": number, "keyspace": "shop", "table": "orders", "partition": {"id": number}}
    return json.dumps({"format": "cassandra-mutation/1", **at, "rows": rows})


def change(file: str, **properties: Any) -> None:
    """Change the property `note` of a contract of one table."""
    document = yaml.safe_load(Path(file).read_text("utf-8"))
    document["schema"][0]["properties"][2].update(properties)
    Path(file).write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")


def test_a_contract_is_exported_compared_and_imported(run: CommandLine) -> None:
    assert run("contract", "export", "--out", "shop.odcs.yaml").code == 0
    before = Path("shop.odcs.yaml").read_bytes()
    assert run("contract", "export", "--out", "shop.odcs.yaml").code == 0
    assert Path("shop.odcs.yaml").read_bytes() == before == run("contract", "export").out.encode()
    answer = run("contract", "check", "shop.odcs.yaml", "--format", "jsonl")
    assert (answer.code, answer.rows) == (0, [])
    answer = run("contract", "import", "shop.odcs.yaml")
    assert (answer.code, answer.err) == (0, "")
    assert yaml.safe_load(answer.out)["tables"] == [
        {"name": "shop.orders", "tests": [{"column": "state", "one_of": ["open", "paid"]}]},
        {"name": "shop.Line Items", "tests": []},
    ]


def test_a_folder_gets_a_contract_a_table(run: CommandLine) -> None:
    assert run("contract", "export", "--out", "contracts").code == 0
    written = sorted(path.name for path in Path("contracts").iterdir())
    assert written == ["shop_-4cine-20-49tems.odcs.yaml", "shop_orders.odcs.yaml"]
    assert run("contract", "check", "contracts/shop_orders.odcs.yaml").code == 0
    assert run("contract", "check", "contracts/shop_orders.odcs.yaml", "--select", "shop.Line Items").code == 1


def test_somebody_s_contract_is_not_replaced(run: CommandLine) -> None:
    Path("mine.yaml").write_text("kind: DataContract\n")
    answer = run("contract", "export", "--out", "mine.yaml")
    assert (answer.code, Path("mine.yaml").read_text()) == (2, "kind: DataContract\n")
    assert "was not written by `cdc-views contract export`" in answer.err


def test_a_difference_exits_1_and_says_where(run: CommandLine) -> None:
    run("contract", "export", "--out", "c.yaml", "--select", "shop.orders")
    change("c.yaml", physicalType="VARCHAR(10)", required=True)
    answer = run("contract", "check", "c.yaml", "--format", "jsonl")
    assert answer.code == 1
    assert [(row["element"], row["difference"], row["verdict"]) for row in answer.rows] == [
        ("note", "narrower in the contract", "differs"),
        ("note", "required without a test", "differs"),
    ]
    assert answer.rows[0]["where"].startswith("c.yaml:")


def test_with_bigquery_every_command_is_refused(run: CommandLine) -> None:
    run("contract", "export", "--out", "c.yaml", "--select", "shop.orders")
    project = json.loads(Path("cdc_views.yml").read_text("utf-8"))
    Path("cdc_views.yml").write_text(json.dumps({**project, "engine": "bigquery", "warehouse": "my-project.shop"}))
    commands = (("contract", "export"), ("contract", "check", "c.yaml"), ("contract", "import", "c.yaml"))
    for command in (*commands, ("validate", "--contract", "c.yaml", "--no-docs")):
        answer = run(*command)
        assert (answer.code, "the types of views are not known" in answer.err) == (2, True), answer.err


def test_what_is_no_data_test_is_warned_of(run: CommandLine) -> None:
    run("contract", "export", "--out", "c.yaml", "--select", "shop.orders")
    change("c.yaml", unique=True)
    answer = run("contract", "import", "c.yaml")
    assert answer.code == 0
    assert "shop.orders: note: unique is not tested: only a key is known to be unique" in answer.err


def test_a_contract_of_other_tables_has_no_tests_for_these(run: CommandLine) -> None:
    run("contract", "export", "--out", "c.yaml", "--select", "shop.orders")
    answer = run("contract", "import", "c.yaml", "--select", "shop.Line Items")
    assert answer.code == 2
    assert "describes 'shop.orders', none of the tables shop.Line Items" in answer.err


@pytest.mark.heavy
def test_validate_tests_what_the_contract_says(run: CommandLine) -> None:
    run("contract", "export", "--out", "c.yaml", "--select", "shop.orders")
    command = ("validate", "--select", "shop.orders", "--no-docs", "--format", "jsonl", "--contract", "c.yaml")
    answer = run(*command)
    assert answer.code == 0, answer.err
    found = {row["check"]: row["status"] for row in answer.rows}
    assert (found["matches_contract"], found["contract_is_tested"]) == ("passed", "passed")
    assert found.keys() >= {"sample_equals_oracle", "deletions_are_kept", "files_are_whole.raw", "one_of.state"}
    assert found["one_row_per_key"] == "passed"
    rule = {"metric": "invalidValues", "mustBe": 0, "arguments": {"validValues": ["x"]}}
    change("c.yaml", required=True, unique=True, quality=[rule])
    answer = run(*command)
    found = {row["check"]: row["status"] for row in answer.rows}
    assert answer.code == 1
    assert (found["not_null.note"], found["one_of.note"], found["contract_is_tested"]) == ("failed", "failed", "skipped")
    told = {row["check"]: row["result"] for row in answer.rows}
    assert "for 1 row" in told["one_of.note"], "null passes"
    assert "note: unique is not tested" in told["contract_is_tested"]
    assert SECRET not in answer.out + answer.err
    change("c.yaml", physicalType="INTEGER")
    answer = run(*command)
    assert "matches_contract" in answer.err
    assert "note: of another type" in answer.err


def test_tests_of_one_name_all_run(run: CommandLine) -> None:
    """The project's `one_of.state` and the contract's are two tests."""
    run("contract", "export", "--out", "c.yaml", "--select", "shop.orders")
    text = Path("c.yaml").read_text().replace("- paid", "- sent")
    Path("c.yaml").write_text(text)
    answer = run("validate", "--select", "shop.orders", "--no-docs", "--format", "jsonl", "--contract", "c.yaml")
    assert {row["check"] for row in answer.rows if row["check"].startswith("one_of")} == {"one_of.state", "one_of.state.2"}


@pytest.mark.parametrize("file", ["nope.yaml", "schema.cql"])
def test_what_is_no_contract_exits_2(run: CommandLine, file: str) -> None:
    for command in (("contract", "check", file), ("contract", "import", file), ("validate", "--contract", file)):
        answer = run(*command)
        assert answer.code == 2
        assert len(answer.err.splitlines()) == 1
