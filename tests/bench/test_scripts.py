"""The benchmarks start as their documents say: a path alone, from a checkout; and measure tables of the size that is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from generate import CELLS, EVENTS, REPLICAS
from relational import TABLES
from state_data import FACTS_A_KEY

HERE = Path(__file__).parent
SCRIPTS = [path for path in sorted(HERE.glob("[!t]*.py")) if "ArgumentParser(" in path.read_text("utf-8")]


@pytest.mark.heavy
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_starts_and_tells_its_options(script: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, "--" in done.stdout) == (0, True), done.stderr


def test_there_are_scripts() -> None:
    assert {"landers.py", "scale.py", "stores.py", "landings.py"} <= {path.name for path in SCRIPTS}


def test_the_page_of_costs_tells_the_sizes_that_are_measured() -> None:
    page = " ".join((HERE.parents[1] / "docs/explanation/cost.md").read_text("utf-8").split())
    state = dict(re.findall(r'"--(keys|tails)", type=int, default=([\d_]+)', (HERE / "state.py").read_text("utf-8")))
    few, many = sorted({columns for columns, _ in TABLES})
    _, absent = sorted({percent for _, percent in TABLES})
    facts = {1: "one fact", 2: "two facts"}[FACTS_A_KEY]
    for piece in (
        f"{EVENTS // 1_000_000} million events of {REPLICAS} replicas each, {CELLS} columns",
        f"for {few} and for {many} columns",
        f"`query`, {absent} % of events leave a column out",
        f"{int(state['keys']) // 1_000_000} million keys, {facts} each, then {state['tails']} tails",
    ):
        assert page.count(piece) == 1, f"the page does not say once: {piece}"
