"""Dagster: a job and a schedule for each table of the project that has one, by the cron expression of the project file."""

import os
import re

import dagster as dg

from cdc_views import Project
from cdc_views.api import Table
from cdc_views.operations.scheduling import job_of

PROJECT = os.environ.get("CDC_VIEWS_PROJECT", "cdc_views.yml")


def schedule_of(table: Table, expression: str) -> dg.ScheduleDefinition:
    """The schedule of a job that materializes one table."""
    label = "materialize_" + re.sub(r"[^A-Za-z0-9_]", "_", table.name)

    @dg.op(name=f"{label}_op", retry_policy=dg.RetryPolicy(max_retries=2, delay=60))
    def materialize(context: dg.OpExecutionContext) -> None:
        context.log.info(job_of(Project.load(PROJECT).table(table.name)).run(wait=600).line())

    @dg.job(name=label)
    def materialize_table() -> None:
        materialize()

    return dg.ScheduleDefinition(job=materialize_table, cron_schedule=expression, execution_timezone="UTC")


defs = dg.Definitions(
    schedules=[
        schedule_of(table, table.config.materialize.schedule)
        for table in Project.load(PROJECT).tables
        if table.config.materialize.schedule
    ]
)
