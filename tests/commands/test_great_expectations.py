"""A project of Great Expectations that its users know: suites of two owners, checkpoints, and no import of ours needed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
QUALITY = Path("warehouse/quality")
OURS = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from helpers.tiny_project import event, make_project, write_lines
from cdc_views.cli import main
if not Path("cdc_views.yml").exists():
    tests = [dict(column="state", one_of=["open", "paid", "secret state"]), dict(name="positive", holds="id >= 0")]
    make_project(Path("."), tests=tests)
    lines = [event(1), event(2, state="paid"), event(3, state="secret state")]
    main(["land", "cassandra-mutation", str(write_lines(Path("e.jsonl"), *lines)), "--table", "shop.orders"])
for number, arguments in enumerate({commands!r}):
    sys.stdout.flush()
    code = main(["validate", "--json", str(number) + ".json", *arguments])
    print("exit", code)
"""
PLAIN = """
import os, sys
os.environ["GX_ANALYTICS_ENABLED"] = "false"
import great_expectations as gx
import pandas as pd
context = gx.get_context(mode="file", project_root_dir="warehouse/quality")
print("suites", sorted(suite.name for suite in context.suites.all()))
for suite in context.suites.all():
    suite.save()
print("ours", [e.expectation_type for e in context.suites.get("shop.orders").expectations])
theirs = context.suites.get("shop.orders.custom")
theirs.add_expectation(gx.expectations.ExpectColumnValuesToBeInSet(column="state", value_set=["open", "paid"]))
theirs.add_expectation(gx.expectations.ExpectColumnMaxToBeBetween(column="id", min_value=0))
rows = pd.DataFrame({"id": [1], "line": [0], "state": ["open"], "note": [None]})
print("run", context.checkpoints.get("shop.orders").run(batch_parameters={"dataframe": rows}).success)
print("imported", any(name.startswith("cdc_") for name in sys.modules))
"""
BEFORE = {
    "name": "shop.orders",
    "id": "6e0c1b0a-0000-4000-8000-000000000001",
    "expectations": [
        {"type": "expect_nothing_broken", "id": "6e0c1b0a-0000-4000-8000-000000000002", "kwargs": {"column": "one_row_per_key"}},
        {
            "type": "expect_column_values_to_not_be_null",
            "id": "6e0c1b0a-0000-4000-8000-000000000003",
            "kwargs": {"column": "note"},
            "meta": {"why": "mine"},
            "severity": "warning",
        },
    ],
    "meta": {"great_expectations_version": "1.24.1"},
}


def run(code: str, folder: Path, **values: Any) -> str:
    # a process of its own: pyspark, which Great Expectations imports, ends one that has no main module
    (folder / "run.py").write_text(code.format(**values) if values else code, "utf-8")
    done = subprocess.run([sys.executable, "run.py"], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def ours(folder: Path, *commands: list[str]) -> str:
    return run(OURS, folder, tests=str(TESTS), commands=list(commands))


def found(folder: Path, number: int) -> dict[str, dict[str, Any]]:
    records = json.loads((folder / f"{number}.json").read_text())
    checks = records[0].get("checks", records)
    return {check.get("check", check.get("name")): check for check in checks}


@pytest.mark.slow
def test_the_users_suite_is_theirs_and_all_opens_without_us(tmp_path: Path) -> None:
    old = tmp_path / QUALITY / "gx" / "expectations" / "shop" / "orders.json"
    old.parent.mkdir(parents=True)
    old.write_text(json.dumps(BEFORE))
    said = ours(tmp_path, [])
    assert "1 expectations that you added to the suite shop.orders" in said, "of an earlier version's suite"
    assert "exit 0" in said, "what was moved fails as a warning only"
    moved = json.loads((old.parent / "orders" / "custom.json").read_text())["expectations"]
    assert [(e["type"], e["meta"]) for e in moved] == [("expect_column_values_to_not_be_null", {"why": "mine"})]
    assert found(tmp_path, 0)["custom.column_values_to_not_be_null.note"]["status"] == "failed"

    plain = run(PLAIN, tmp_path)
    assert "suites ['shop.orders', 'shop.orders.counts', 'shop.orders.custom']" in plain
    assert "expect_compound_columns_to_be_unique" in plain
    assert "expect_column_values_to_be_between" in plain
    assert "run False" in plain, "the moved expectation: note is null in that row"
    assert "imported False" in plain

    custom = (tmp_path / QUALITY / "gx" / "expectations" / "shop" / "orders" / "custom.json").read_bytes()
    said = ours(tmp_path, [], ["--with-values"], ["--docs-rows", "2"])
    assert re.findall("exit (.)", said) == ["1", "1", "2"], "theirs is run, and fails; of too many rows it is not run"
    assert "its rows are more than 2, and the suite shop.orders.custom is to judge them" in said
    assert (tmp_path / QUALITY / "gx" / "expectations" / "shop" / "orders" / "custom.json").read_bytes() == custom
    assert "does not hold for 1 row" in said
    in_set = found(tmp_path, 0)["custom.column_values_to_be_in_set.state"]
    assert in_set["status"] == "failed"
    assert "secret" not in (tmp_path / "0.json").read_text().replace("secret state'", "")
    assert "secret state" in json.dumps(found(tmp_path, 1)["custom.column_values_to_be_in_set.state"])
    results = [
        path.read_text("utf-8") for path in (tmp_path / QUALITY / "gx" / "uncommitted" / "validations").rglob("custom/**/*.json")
    ]
    assert ["secret state" in text for text in results].count(True) == 1, "only where --with-values asked for values of rows"
    assert ['"observed_value": 3' in text for text in results].count(True) == 2, "a maximum is kept without it, too"


@pytest.mark.heavy
def test_an_expectation_of_an_unknown_class_is_not_left_out_silently(tmp_path: Path) -> None:
    unknown = {"type": "expect_my_own", "id": "6e0c1b0a-0000-4000-8000-000000000009", "kwargs": {}}
    file = tmp_path / QUALITY / "gx" / "expectations" / "shop" / "orders" / "custom.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(BEFORE | {"name": "shop.orders.custom", "expectations": [unknown]}))
    said = ours(tmp_path, [])
    assert re.findall("exit (.)", said) == ["2"]
    assert "expect_my_own" in said
    assert json.loads(file.read_text())["expectations"] == [unknown]
