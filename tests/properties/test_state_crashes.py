"""`materialize` in processes of its own, killed at random moments and run by two at once: the same rows in the end.

The events are those that three real Cassandra nodes logged. CDC_VIEWS_KILLS says how often a run is killed (3).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.killed_states import FAST_JVM, KILLS, NARROW_TABLE, TABLE, Live
from helpers.reading import SEED

from cdc_views.plan.parts import Source
from cdc_views.state import sources_of

pytestmark = pytest.mark.heavy


def _finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors.decode()


def _how_long(live: Live) -> float:
    started = time.monotonic()
    _finish(live.start())
    return time.monotonic() - started


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_a_killed_run_loses_nothing(tmp_path: Path, cassandra_cases: Path, engine: str) -> None:
    live = Live(tmp_path, cassandra_cases, engine=engine)
    live.land(0.3)
    usual = _how_long(live)
    rng = random.Random(f"{SEED} kills")
    for _ in range(KILLS):
        live.land(0.1)
        process = live.start()
        time.sleep(rng.uniform(0.4, 1.0) * usual)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        live.check(has_state=True)
    live.land(1.0)
    _finish(live.start())
    live.check(has_state=True)
    assert len(live.texts(raw_only=False)) == live.rows
    sources = sources_of(live.table.raw, live.table.state_location)
    assert sources is not None
    assert not sources.parts.has(Source.TAIL)


@pytest.mark.slow
def test_two_at_once_make_one_state(tmp_path: Path, cassandra_cases: Path) -> None:
    live = Live(tmp_path, cassandra_cases, engine="duckdb")
    live.land(0.3)
    for share in (0.2, 0.2, 1.0):
        both = [live.start() for _ in range(2)]
        live.land(share)
        codes = sorted((process.communicate(timeout=240), process.returncode)[1] for process in both)
        assert codes in ([0, 0], [0, 3]), "one may find the other's lock, none may fail otherwise"
        live.check(has_state=True)
    _finish(live.start())
    live.check(has_state=True)
    assert len(live.texts(raw_only=False)) == live.rows


@pytest.mark.slow
def test_two_without_a_lock_make_one_state(tmp_path: Path, cassandra_cases: Path) -> None:
    """The lock is for economy: commits are compare-and-swap."""
    live = Live(tmp_path, cassandra_cases, engine="duckdb")
    live.land(0.4)
    code = "import sys; from cdc_views import Project; Project.load(sys.argv[1]).table(sys.argv[2]).materialize()"
    command = [sys.executable, "-c", code, str(tmp_path / "cdc_views.yml"), TABLE]
    for share in (0.3, 1.0):
        both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
        for process in both:
            _finish(process)
        live.check(has_state=True)
        live.land(share)
    live.table.materialize()
    live.check(has_state=True)
    assert len(live.texts(raw_only=False)) == live.rows


_ON_WORKERS = """
import sys
from cdc_views import Project
from cdc_views.operations.materializing import materialize_on

project, name, *files = sys.argv[1:]
table = Project.load(project).table(name)
with table.project.engine("spark") as engine:
    assert engine.session.sparkContext.master.startswith("local-cluster"), engine.session.sparkContext.master
    for file in files:
        table.land(file)
        print(materialize_on(engine, table).line())
"""


@pytest.mark.spark
@pytest.mark.slow
def test_it_runs_on_processes_of_their_own(tmp_path: Path, cassandra_cases: Path) -> None:
    """Two executors, each a JVM: nothing may hang on driver and workers sharing memory."""
    live = Live(tmp_path, cassandra_cases, engine="spark")
    files = [str(live.batch(share)) for share in (0.5, 0.2)]
    command = [sys.executable, "-c", _ON_WORKERS, str(tmp_path / "cdc_views.yml"), NARROW_TABLE, *files]
    settings = {"CDC_VIEWS_SPARK_MASTER": "local-cluster[2,1,1024]", "JAVA_TOOL_OPTIONS": FAST_JVM}
    ran = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, timeout=400, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert [line.split(" from ")[0] for line in ran.stdout.decode().splitlines()] == ["state built", "state brought up to date"]
    live.check(has_state=True)
