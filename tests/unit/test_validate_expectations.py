"""Our custom expectation in a Great Expectations project of somebody else's, as docs/how-to/validate.md shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tiny_project import event, make_project, write_lines

from cdc_views.api import Project

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "validate.md"

pytestmark = pytest.mark.heavy

COUNTS = """
import great_expectations as gx
import pandas as pd
from cdc_views.quality.expectations import ExpectNothingBroken
context = gx.get_context(mode="ephemeral")
source = context.data_sources.add_pandas("mine")
frames = {"zero": [0, 0], "one": [0, 1], "null": [0, None], "none": []}
for name, values in frames.items():
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all")
    batch = batch.get_batch({"dataframe": pd.DataFrame({"n": pd.Series(values, dtype="float64")})})
    met = [batch.validate(ExpectNothingBroken(column="n"), result_format=form).success
           for form in ("BOOLEAN_ONLY", "BASIC", "SUMMARY", "COMPLETE")]
    print("met", name, met)
"""
SAVED = """
import great_expectations as gx
from cdc_views.quality.expectations import ExpectNothingBroken
context = gx.get_context(mode="file", project_root_dir="gx_project")
{act}
"""
SAVE = 'context.suites.add(gx.ExpectationSuite("s", [ExpectNothingBroken(column="n")]))'
LOAD = 'print("loaded", [type(e).__name__ for e in context.suites.get("s").expectations])'


def run(code: str, folder: Path) -> str:
    # a process of its own: pyspark, which Great Expectations imports, ends one that has no main module
    (folder / "example.py").write_text(code, "utf-8")
    done = subprocess.run([sys.executable, "example.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(*words: str, folder: Path) -> str:
    program = [sys.executable, "-m", "cdc_views", *words]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, check=True).stdout


def example(naming: str = "suite_of") -> str:
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.S) if naming in code]
    return str(code)


@pytest.mark.slow
def test_the_documented_expectation_of_ones_own_is_added_and_listed(tmp_path: Path) -> None:
    make_project(tmp_path)
    Project.load(tmp_path / "cdc_views.yml").table("shop.orders").land(write_lines(tmp_path / "events.jsonl", event(1)))
    assert ",custom." not in command("validate", "--format", "csv", folder=tmp_path)
    (tmp_path / "orders.jsonl").write_text(command("query", "shop.orders", "--format", "jsonl", folder=tmp_path))
    assert run(example("shop.orders.custom"), tmp_path).splitlines()[-1] == "True"
    again = command("validate", "--format", "csv", folder=tmp_path)
    assert "shop.orders,custom.column_values_to_be_in_set.state,passed" in again


@pytest.mark.slow
def test_the_documented_example_runs_and_fails_where_it_should(tmp_path: Path) -> None:
    make_project(tmp_path)
    table = Project.load(tmp_path / "cdc_views.yml").table("shop.orders")
    table.land(write_lines(tmp_path / "events.jsonl", event(1), event(2)))
    good = (tmp_path / "cdc_views.yml").read_text()
    make_project(tmp_path, tests=[{"column": "note", "not_null": True}])
    (tmp_path / "bad.yml").write_text((tmp_path / "cdc_views.yml").read_text())
    (tmp_path / "cdc_views.yml").write_text(good)
    broken = example().replace("cdc_views.yml", "bad.yml").replace("[0]", "[3]")
    lines = run(example() + broken + COUNTS, tmp_path).splitlines()
    assert lines[:4] == ["True", "True", "False", "False"]
    found = dict(line.split(" ", 2)[1:] for line in lines if line.startswith("met "))
    never, always = str([False] * 4), str([True] * 4)
    assert found == {"zero": always, "one": never, "null": never, "none": never}, "nulls and no rows are no counts"


@pytest.mark.slow
def test_a_saved_suite_loads_in_another_process(tmp_path: Path) -> None:
    run(SAVED.format(act=SAVE), tmp_path)
    assert "loaded ['ExpectNothingBroken']" in run(SAVED.format(act=LOAD), tmp_path)
