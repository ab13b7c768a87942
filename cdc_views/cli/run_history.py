"""Leaves a record of a run in the warehouse, for the trends of `ui`, and tells those whom the project file names of alerts and of
OpenLineage events. None of it makes a run fail.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from threading import Lock
from typing import TYPE_CHECKING, Any

from cdc_views.cli.log import log
from cdc_views.errors import CdcViewsError, UsageError

if TYPE_CHECKING:
    from cdc_views.operations.context import ProjectContext
    from cdc_views.operations.openlineage import Assertion
    from cdc_views.operations.run_records import RunRecord
    from cdc_views.operations.scheduling import Clock
    from cdc_views.state import Materialization


Tests = Mapping[str, "Sequence[Assertion]"]
"""How tests ended, by table."""
SPAN = 60.0
"""Seconds that one record of `Runs` covers at least: else a table that runs each second would push out all other records."""


@dataclass(frozen=True, slots=True)
class RunClock:
    """Begins with the run of a command, and leaves its record."""

    command: str
    started: float = field(default_factory=time.monotonic)

    def keep(self, project: ProjectContext, tables: Mapping[str, Mapping[str, Any]], *, tests: Tests | None = None) -> None:
        """Leave the record of the run with figures of each table; warn where that fails. A run that failed for all leaves none:
        where the warehouse is away, the record would only tell that once more. `tests` are those that a run made, by table.
        """
        _keep(project, self.command, tables, seconds=time.monotonic() - self.started, tests=tests)

    def keep_failure(self, project: ProjectContext, table: str, error: CdcViewsError, **figures: Any) -> None:
        """Leave the record of a run that failed at a table; a call with wrong arguments is no run, and leaves none."""
        if not isinstance(error, UsageError):
            self.keep(project, {table: failed(error) | figures})


@dataclass
class Runs:
    """Runs of tables, one after the other, by a process that goes on. A record has the last of each table in about `SPAN`
    seconds; a run that failed, or found late facts, is kept at once. Any thread may add one.
    """

    command: str
    project: ProjectContext
    _tables: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _seconds: float = 0.0
    _since: float = field(default_factory=time.monotonic)
    _lock: Lock = field(default_factory=Lock)

    def add(self, table: str, figures: Mapping[str, Any], *, seconds: float | None = None) -> None:
        """Note a run that ended after so many seconds."""
        with self._lock:
            self._tables[table] = figures
            self._seconds += seconds or 0.0
            is_urgent = bool(figures.get("failed") or figures.get("late"))
        if is_urgent or time.monotonic() - self._since >= SPAN:
            self.keep()

    def keep(self) -> None:
        """Leave the record of the runs since the last one, if there were any."""
        with self._lock:
            tables, seconds = self._tables, self._seconds
            self._tables, self._seconds, self._since = {}, 0.0, time.monotonic()
        _keep(self.project, self.command, tables, seconds=seconds)


@dataclass(frozen=True)
class KeepingClock:
    """A scheduler's clock: where it sleeps nothing is due, and what has run until then becomes a record."""

    clock: Clock
    runs: Runs

    def now(self) -> datetime:
        """Return the current instant."""
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        """Leave the record, then sleep."""
        self.runs.keep()
        self.clock.sleep(seconds)


def _keep(
    project: ProjectContext, command: str, tables: Mapping[str, Mapping[str, Any]], *, seconds: float, tests: Tests | None = None
) -> None:
    if not tables:
        return
    from cdc_views.operations.run_records import RunRecord, keep_run

    record = RunRecord.of(command, tables, now=datetime.now(timezone.utc), seconds=seconds)
    _alert(project, record)
    _send_lineage(project, record, tests or {})
    why = keep_run(project, record)
    # where the warehouse is away, the errors have said so
    if why and not all(figures.get("failed") for figures in tables.values()):
        log.warning(f"this run leaves no record for `cdc-views ui`: {why}")


def _alert(project: ProjectContext, record: RunRecord) -> None:
    """Tell the project's webhook, if there is one, what changed since each table's last record of the command."""
    if project.config.alerts is None:
        return
    from cdc_views.operations.alerting import alerts_between, carried, post
    from cdc_views.operations.run_records import runs_of

    last: dict[str, Mapping[str, Any]] = {}
    for earlier in runs_of(project, record.command):
        last = carried(last, earlier.tables)
    alerts = alerts_between(replace(record, tables=last), replace(record, tables=carried(last, record.tables)))
    if alerts and (why := post(project.config.alerts.webhook.get_secret_value(), project.config.name, record, alerts)):
        log.warning(f"alerts.webhook: {len(alerts)} alerts were not taken: {why}")


def _send_lineage(project: ProjectContext, record: RunRecord, tests: Tests) -> None:
    """Send the project's consumer of OpenLineage events, if there is one, those of the run."""
    consumer = project.config.openlineage
    if consumer is None:
        return
    from cdc_views.operations.openlineage import COMMANDS, TableRun, events_of, send

    if record.command not in COMMANDS:
        return
    namespace, events = consumer.namespace or project.config.name, list[Mapping[str, Any]]()
    ended, known = datetime.fromisoformat(record.at), {table.name: table for table in project.tables}
    try:
        for name, figures in record.tables.items():
            seconds = float(figures.get("seconds", record.seconds))
            problem = str(figures.get("error", "")) if figures.get("failed") else ""
            run = TableRun(record.command, ended, seconds, problem, tuple(tests.get(name, ())))
            events += events_of(known[name], run, namespace=namespace)
    except CdcViewsError as error:  # a schema that cannot be read has no columns
        log.warning(f"openlineage.url: no events of this run: {error}")
        return
    key = consumer.api_key
    if why := send(consumer.url, events, token="" if key is None else key.get_secret_value()):
        log.warning(f"openlineage.url: events of this run were not taken: {why}")


def failed(error: Exception) -> dict[str, Any]:
    """Return what a record keeps of a run that failed for a table: no message, which may quote an event."""
    return {"failed": True, "error": type(error).__name__}


def figures_of_materialization(done: Materialization, seconds: float | None) -> dict[str, Any]:
    """Return what a record keeps of a state's run, which took so many seconds."""
    return {
        **({} if seconds is None else {"seconds": round(seconds, 3)}),
        "is_new": done.is_new,
        "raw_version": done.raw_version,
        "facts": done.facts,
        "late": done.late,
        "state_facts": done.state_facts,
        "state_bytes": done.state_bytes,
    }
