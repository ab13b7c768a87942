"""Airflow 3: one DAG for each table of the project that has a schedule, by the cron expression of the project file.

For Airflow 2 take `DAG` from `airflow` and `task` from `airflow.decorators`.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, task

from cdc_views import Project
from cdc_views.operations.scheduling import job_of

PROJECT = os.environ.get("CDC_VIEWS_PROJECT", "cdc_views.yml")


@task(retries=2, retry_delay=timedelta(minutes=1))
def materialize(name: str) -> str:
    """Bring one table's state up to date; a run of it elsewhere is waited for."""
    return job_of(Project.load(PROJECT).table(name)).run(wait=600).line()


for table in Project.load(PROJECT).tables:
    if schedule := table.config.materialize.schedule:
        with DAG(
            dag_id="materialize." + re.sub(r"[^A-Za-z0-9_.-]", "_", table.name),
            schedule=schedule,
            start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
            catchup=False,  # one run takes in all that landed, however many were missed
            max_active_runs=1,
        ):
            materialize(table.name)
