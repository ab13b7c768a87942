"""When `materialize` runs: by cron expressions, one run at a time per table, across processes and hosts."""

from __future__ import annotations

from cdc_views.operations.scheduling.jobs import Job, Materializable, holding, job_of, lock_folder
from cdc_views.operations.scheduling.running import (
    Clock,
    Completed,
    Failed,
    Happening,
    Skipped,
    Started,
    SystemClock,
    run_schedule,
    run_until_stopped,
)

__all__ = [
    "Clock",
    "Completed",
    "Failed",
    "Happening",
    "Job",
    "Materializable",
    "Skipped",
    "Started",
    "SystemClock",
    "holding",
    "job_of",
    "lock_folder",
    "run_schedule",
    "run_until_stopped",
]
