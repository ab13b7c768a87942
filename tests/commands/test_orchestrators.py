"""The example files run in Airflow and in Dagster themselves, each in a virtual environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from helpers.pinned import ROOT, path_of_checkout, program
from helpers.tiny_project import event, make_project, write_lines

from cdc_views.api import Project

EXAMPLES = ROOT / "docs" / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one scheduled table with one event."""
    file = make_project(tmp_path, materialize={"schedule": "*/15 * * * *"})
    Project.load(file).table("shop.orders").land(write_lines(tmp_path / "events.jsonl", event(1)))
    return file


def ran(command: list[str], project: Path, **environment: str) -> str:
    named = {
        "CDC_VIEWS_PROJECT": str(project),
        "PYTHONPATH": path_of_checkout(project.parent),
        "HOME": str(project.parent),
        "DO_NOT_TRACK": "1",
    }
    known = os.environ | named | environment
    done = subprocess.run(command, cwd=project.parent, env=known, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def state_version(project: Path) -> int | None:
    from cdc_views.operations.lateness import state_of

    found = state_of(Project.load(project).table("shop.orders"))
    return None if found is None else found.raw_version


def test_airflow_runs_the_dag(project: Path) -> None:
    airflow = str(program("airflow"))
    settings = {
        "AIRFLOW_HOME": str(project.parent / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "false",
        # Airflow's workers start programs by name
        "PATH": f"{Path(airflow).parent}{os.pathsep}{os.environ['PATH']}",
    }
    ran([airflow, "db", "migrate"], project, **settings)
    said = ran([airflow, "dags", "test", "materialize.shop.orders"], project, **settings)
    assert "state=success" in said
    assert state_version(project) == 1


def test_dagster_runs_the_job(project: Path) -> None:
    dagster = str(program("dagster"))
    settings = {"DAGSTER_HOME": str(project.parent), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    file, job = str(EXAMPLES / "dagster_job.py"), "materialize_shop_orders"
    assert "RUN_SUCCESS" in ran([dagster, "job", "execute", "-f", file, "-j", job], project, **settings)
    assert state_version(project) == 1
