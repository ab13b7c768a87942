"""Serving tables after `kill -9` at random moments of a run, and with runs at once, in processes of their own.

The events are those that three real Cassandra nodes logged. CDC_VIEWS_KILLS says how often a run is killed (3).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.killed_states import KILLS, TABLE, Live
from helpers.reading import SEED
from helpers.serving import assert_serves

from cdc_views import Project
from cdc_views.engines.duckdb.engine import DuckDbEngine

pytestmark = pytest.mark.heavy
_RUN = "import sys; from cdc_views import Project; Project.load(sys.argv[1]).table(sys.argv[2]).materialize()"


class Serving(Live):
    """A project whose table has a serving table."""

    def __init__(self, folder: Path, cases: Path) -> None:
        super().__init__(folder, cases, engine="duckdb")
        file = folder / "cdc_views.yml"
        config = json.loads(file.read_text())
        config["tables"][0]["materialize"] = {"serving": {"name": "orders"}}
        file.write_text(json.dumps(config))
        self.table = Project.load(file).table(TABLE)
        self.serving = str(folder / "warehouse" / "serving" / "orders")

    def check_serving(self, engine: DuckDbEngine, *, at_rest: bool) -> None:
        """It shows what raw showed at the version and instant it names; at rest, the newest version."""
        assert_serves(engine, self.serving, self.table.raw)
        if at_rest:
            assert_serves(engine, self.serving, self.table.raw, now=int(time.time()))

    def wait_for_a_file(self, process: subprocess.Popen[bytes]) -> None:
        """Return once the run has begun to write a file of the serving table, whose commit is to come, or has ended."""
        before = self._files()
        while process.poll() is None and self._files() == before:
            time.sleep(0.002)

    def _files(self) -> set[str]:
        return {str(path) for path in Path(self.serving).rglob("*.parquet*")}


def _finished(process: subprocess.Popen[bytes]) -> int:
    process.communicate(timeout=240)
    return process.returncode


@pytest.mark.slow
def test_a_killed_run_leaves_the_rows_of_before_or_after(
    duckdb_engine: DuckDbEngine, tmp_path: Path, cassandra_cases: Path
) -> None:
    live = Serving(tmp_path, cassandra_cases)
    live.land(0.3)
    started = time.monotonic()
    assert _finished(live.start()) == 0
    usual = time.monotonic() - started
    rng = random.Random(f"{SEED} serving kills")
    for kill in range(KILLS):
        live.land(0.05)
        process = live.start()
        if kill % 2:
            time.sleep(rng.uniform(0.5, 1.0) * usual)
        else:
            live.wait_for_a_file(process)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        live.check_serving(duckdb_engine, at_rest=False)
    live.land(1.0)
    assert _finished(live.start()) == 0
    live.check_serving(duckdb_engine, at_rest=True)


@pytest.mark.slow
def test_runs_at_once_make_one_serving_table(duckdb_engine: DuckDbEngine, tmp_path: Path, cassandra_cases: Path) -> None:
    """Without the lock, which is for economy: commits are compare-and-swap."""
    live = Serving(tmp_path, cassandra_cases)
    live.land(0.4)
    command = [sys.executable, "-c", _RUN, str(tmp_path / "cdc_views.yml"), TABLE]
    for share in (0.3, 1.0):
        several = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
        codes = [_finished(process) for process in several]
        assert codes == [0, 0]
        live.check_serving(duckdb_engine, at_rest=True)
        live.land(share)
    live.table.materialize()
    live.check_serving(duckdb_engine, at_rest=True)
