"""The receiver's own metrics. Labels are tables of the project and routes, never what was sent."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from cdc_producers.metrics import Metrics

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class HttpMetrics(Metrics):
    """The metrics of one receiver."""

    def __init__(self) -> None:
        super().__init__("http")
        of: dict[str, Any] = {"registry": self.registry, "namespace": "cdc_views", "subsystem": "http"}
        self.requests = Counter("requests", "Requests answered.", ["route", "status"], **of)
        self.outcomes = Counter("events", "Events: landed, quarantined, dead_letter or notice.", ["table", "outcome"], **of)
        self.commits = Counter("commits", "Batches landed.", ["table"], **of)
        self.landing_failures = Counter("landing_failures", "Attempts to land that failed.", ["table"], **of)
        self.failing = Gauge("failing", "1 while the last attempt to land failed.", ["table"], **of)
        self.last_landed = Gauge("last_landed_timestamp_seconds", "When a batch landed last.", ["table"], **of)
        self.waiting_requests = Gauge("waiting_requests", "Requests that are read or wait for their events to land.", **of)
        self.waiting_bytes = Gauge("waiting_bytes", "Bytes of these requests.", **of)
        self.waited = Histogram("landing_seconds", "Seconds from a request's events to their landing.", buckets=_SECONDS, **of)

    def expect(self, tables: Iterable[str], *, parts: Iterable[str] = ()) -> None:
        """See `Metrics.expect`; a table is a part of its own."""
        names = tuple(tables)
        super().expect(names, parts=(*names, *parts))
        for table in names:
            self.commits.labels(table)
            self.landing_failures.labels(table)
            self.failing.labels(table)
            for outcome in ("landed", "quarantined"):
                self.outcomes.labels(table, outcome)
        for outcome in ("dead_letter", "notice"):
            self.outcomes.labels("", outcome)

    def landed(self, table: str, *, events: int, quarantined: int) -> None:
        """Count a batch."""
        self.events(table).inc(events)
        self.quarantined(table).inc(quarantined)
        self.commits.labels(table).inc()
        self.outcomes.labels(table, "landed").inc(events)
        self.outcomes.labels(table, "quarantined").inc(quarantined)
        self.failing.labels(table).set(0)
        self.last_landed.labels(table).set(time.time())

    def failed(self, table: str) -> None:
        """Count a failed attempt."""
        self.failures(table).inc()
        self.landing_failures.labels(table).inc()
        self.failing.labels(table).set(1)
