"""What a command does not need is not imported: landing loads no planner, printing SQL loads no Delta, DuckDB or erasure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tiny_project import make_project


def loaded(folder: Path, *arguments: str) -> set[str]:
    """Names of the modules that a command loads; it must end with 0."""
    make_project(folder)
    command = [sys.executable, "-X", "importtime", "-m", "cdc_views", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def within(names: set[str], *packages: str) -> set[str]:
    return {name for name in names if any(name == package or name.startswith(package + ".") for package in packages)}


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "bigquery"])
def test_printing_sql_loads_no_delta_no_engine_and_no_erasure(tmp_path: Path, dialect: str) -> None:
    names = loaded(tmp_path, "generate", "--dialect", dialect)
    assert "cdc_views.sql.render" in names
    heavy = ("deltalake", "duckdb", "pyspark", "google.cloud", "cdc_views.landing", "cdc_views.state")
    assert within(names, *heavy, "cdc_views.operations.erasing", "cdc_views.engines.duckdb.engine") == set()


def test_the_landing_and_a_table_to_land_into_load_no_planner_and_no_engine(tmp_path: Path) -> None:
    make_project(tmp_path)
    code = "import sys, cdc_views.landing as _, cdc_views; cdc_views.Project.load().table('shop.orders').raw; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    names = set(done.stdout.split())
    assert "cdc_views.landing.files" in names
    assert within(names, "cdc_views.plan", "cdc_views.sql", "duckdb", "pyspark") == set()
