"""Leaves a record of a run in the warehouse, for the trends of `ui` and for alerts; that never makes the run fail."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from cdc_views.cli.log import log

if TYPE_CHECKING:
    from cdc_views.operations.context import ProjectContext
    from cdc_views.operations.run_records import RunRecord
    from cdc_views.state import Materialization


@dataclass(frozen=True, slots=True)
class RunClock:
    """Begins with the run of a command, and leaves its record."""

    command: str
    started: float = field(default_factory=time.monotonic)

    def keep(self, project: ProjectContext, tables: Mapping[str, Mapping[str, Any]]) -> None:
        """Leave the record of the run with figures of each table; warn where that fails. A run that failed for all leaves none:
        where the warehouse is away, the record would only tell that once more.
        """
        if not tables:
            return
        from cdc_views.operations.run_records import RunRecord, keep_run

        seconds = time.monotonic() - self.started
        record = RunRecord.of(self.command, tables, now=datetime.now(timezone.utc), seconds=seconds)
        _alert(project, record)
        if why := keep_run(project, record):
            log.warning(f"this run leaves no record for `cdc-views ui`: {why}")


def _alert(project: ProjectContext, record: RunRecord) -> None:
    """Tell the project's webhook, if there is one, what changed since each table's last record of the command."""
    if project.config.alerts is None:
        return
    from cdc_views.operations.alerting import alerts_between, post
    from cdc_views.operations.run_records import RunRecord, runs_of

    last: dict[str, Mapping[str, Any]] = {}
    for earlier in runs_of(project, record.command):
        last |= earlier.tables
    before = RunRecord(record.command, record.at, 0, last) if last else None
    alerts = alerts_between(before, record)
    if alerts and (why := post(project.config.alerts.webhook.get_secret_value(), project.config.name, record, alerts)):
        log.warning(f"alerts.webhook: {len(alerts)} alerts were not taken: {why}")


def failed(error: Exception) -> dict[str, Any]:
    """Return what a record keeps of a run that failed for a table: no message, which may quote an event."""
    return {"failed": True, "error": type(error).__name__}


def figures_of_materialization(done: Materialization) -> dict[str, Any]:
    """Return what a record keeps of a state's run."""
    return {
        "is_new": done.is_new,
        "raw_version": done.raw_version,
        "facts": done.facts,
        "late": done.late,
        "state_facts": done.state_facts,
        "state_bytes": done.state_bytes,
    }
