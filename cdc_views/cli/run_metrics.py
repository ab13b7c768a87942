"""Metrics of `materialize` for Prometheus: a file for node_exporter's textfile collector, or an address that is served."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from cdc_views.cli.log import log
from cdc_views.cli.textfile import TableGauges
from cdc_views.errors import UsageError
from cdc_views.model.addresses import host_and_port

if TYPE_CHECKING:
    from cdc_views.operations.scheduling import Job
    from cdc_views.state import Materialization

PREFIX = "cdc_views_materialize_"
HELP = {
    "last_run_timestamp_seconds": "When the last run ended",
    "last_success_timestamp_seconds": "When the last run that succeeded ended",
    "due_timestamp_seconds": "The first instant of the table's schedule that no successful run has covered",
    "failed": "1 where the last run failed",
    "run_seconds": "How long the last run took",
    "facts": "Raw facts that the last successful run read",
    "late": "Facts that the last successful run put into quarantine, because they landed too late",
    "raw_version": "The version of the raw table that the state covers",
}
"""Every metric is a gauge with the label `table`."""


class RunMetrics:
    """What is known of each table's last run; `file` is None, or written anew after each run. `jobs` say what is due when.

    A file keeps what it has of tables that this process does not run, so runs of several `--select` may share it, one at a time.
    """

    def __init__(self, jobs: Sequence[Job], file: Path | None = None) -> None:
        self.jobs = jobs
        self.gauges = TableGauges(PREFIX, HELP, file)
        self._values = self.gauges.values
        self._since: dict[str, float] = {}

    def begin(self, table: str) -> None:
        """Note that a run begins."""
        self._since[table] = time.time()

    def succeed(self, table: str, outcome: Materialization) -> float | None:
        """Note a run that succeeded; return its seconds, None if its begin was not noted."""
        since = self._since.get(table, time.time())
        seconds = self._end(table)
        known = {"facts": outcome.facts, "late": outcome.late, "raw_version": outcome.raw_version}
        self._values.update({(name, table): float(value) for name, value in known.items() if value is not None})
        self._values["failed", table] = 0
        self._values["last_success_timestamp_seconds", table] = time.time()
        self._owe(table, datetime.fromtimestamp(since, timezone.utc))
        self.gauges.publish()
        return seconds

    def fail(self, table: str) -> None:
        """Note a run that failed; what is due stays due."""
        self._end(table)
        self._values["failed", table] = 1
        self.gauges.publish()

    def skip(self, table: str) -> None:
        """Note that another process runs, or has run, the table."""
        for job in self.jobs:
            done = job.completed() if job.name == table else None
            if done is not None:
                self._owe(table, done)
        self.gauges.publish()

    def begin_all(self, tables: Iterable[str]) -> None:
        """Read what the file has of these tables, and note when each scheduled one is due."""
        self.gauges.read(set(tables))
        for job in self.jobs:
            if ("due_timestamp_seconds", job.name) not in self._values:
                self._owe(job.name, job.completed() or datetime.now(timezone.utc))
        self.gauges.write()

    def _end(self, table: str) -> float | None:
        since, now = self._since.pop(table, None), time.time()
        self._values["last_run_timestamp_seconds", table] = now
        if since is None:
            return None
        self._values["run_seconds", table] = now - since
        return now - since

    def _owe(self, table: str, covered: datetime) -> None:
        for job in self.jobs:
            if job.name == table and job.cron is not None:
                self._values["due_timestamp_seconds", table] = job.cron.after(covered).timestamp()


@contextmanager
def watched_runs(jobs: Sequence[Job], *, tables: Iterable[str], file: Path | None, listen: str | None) -> Iterator[RunMetrics]:
    """Yield the metrics of these jobs, written to `file` and served at `listen` (host:port) where they are given.
    Raises `UsageError` where that cannot be.
    """
    runs = RunMetrics(jobs, file)
    if file is None and listen is None:
        yield runs
        return
    runs.gauges.check("--metrics, as --listen,")
    from prometheus_client import CollectorRegistry, start_http_server

    runs.begin_all(tables)
    if listen is None:
        yield runs
        return
    host, port = host_and_port(listen)
    registry = CollectorRegistry()
    registry.register(runs.gauges)
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--listen {listen}: {error}; name a free port of this machine, or 0 for any") from error
    try:
        address = f"http://{host}:{server.server_port}"
        log.info(f"metrics: {address}/metrics", address=address)
        yield runs
    finally:
        server.shutdown()
        server.server_close()
        thread.join(1.0)
