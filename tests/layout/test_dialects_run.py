"""Every installed dialect's text is run by a test that some target of `make` selects, and that nothing skips."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cdc_views.sql.dialects import dialect_names

TESTS = Path(__file__).parents[1]
RUN_BY = TESTS / "properties" / "test_dialects.py"
SELECTED = re.findall(r'-m "([^"]+)"', (TESTS.parent / "Makefile").read_text("utf-8"))
COLLECT = """
import json, sys, pytest
class Told:
    def pytest_collection_finish(self, session):
        runs = [item for item in session.items if item.originalname == "test_random_histories_give_the_oracles_rows"]
        told = [[item.callspec.params["dialect"], [mark.name for mark in item.iter_markers()]] for item in runs]
        print("told", json.dumps(told))
sys.exit(pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", sys.argv[1]], plugins=[Told()]))
"""
"""Prints the dialect and the marks of each run."""
SKIPPING = ("skip", "skipif", "xfail")
Runs = list[tuple[str, list[str]]]


class _Marks(dict[str, bool]):
    def __missing__(self, name: str) -> bool:
        return False


def is_selected(marks: Iterable[str], by: str) -> bool:
    """Whether an expression of marks selects a test."""
    return bool(eval(by, {"__builtins__": {}}, _Marks(dict.fromkeys(marks, True))))


def not_run(dialects: Iterable[str], runs: Runs, selected: Iterable[str] = SELECTED) -> set[str]:
    """The dialects that no run is of."""
    expressions = list(selected)
    run = {dialect for dialect, marks in runs if not {*marks} & {*SKIPPING} and any(is_selected(marks, by) for by in expressions)}
    return {*dialects} - run


@pytest.fixture(scope="module")
def runs() -> Runs:
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, str(RUN_BY)], cwd=TESTS.parent, text=True, capture_output=True, timeout=120, check=False
    )
    told: list[Any] = [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("told ")]
    assert told, done.stdout + done.stderr
    return [(dialect, marks) for dialect, marks in told[0]]


def test_every_installed_dialect_is_run(runs: Runs) -> None:
    assert len(SELECTED) >= 5
    assert not_run(dialect_names(), runs) == set()


def test_the_check_can_fail(runs: Runs) -> None:
    assert not_run([*dialect_names(), "nowhere"], runs) == {"nowhere"}
    runs = [("a", ["skipif", "live"]), ("b", ["live", "slow"]), ("c", ["live"])]
    assert not_run(["a", "b", "c"], runs, ["live and not slow"]) == {"a", "b"}


def test_no_engine_is_skipped_where_it_is_missing() -> None:
    files = [RUN_BY, *(TESTS / "helpers").glob("dialect_*.py"), *(TESTS / "unit").glob("test_dialect_*.py")]
    assert len(files) > 8
    assert [file.name for file in files if re.search(r"importorskip|skipif|pytest\.skip", file.read_text("utf-8"))] == []
