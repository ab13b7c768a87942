"""What is counted, for Prometheus. Labels are tables of the project and routes, never what was sent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(slots=True)
class Metrics:
    """The metrics of one receiver, in a registry of their own."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Counter = field(init=False)
    events: Counter = field(init=False)
    commits: Counter = field(init=False)
    failures: Counter = field(init=False)
    failing: Gauge = field(init=False)
    last_landed: Gauge = field(init=False)
    waiting_requests: Gauge = field(init=False)
    waiting_bytes: Gauge = field(init=False)
    waited: Histogram = field(init=False)

    def __post_init__(self) -> None:
        of: dict[str, Any] = {"registry": self.registry, "namespace": "cdc_views", "subsystem": "http"}
        self.requests = Counter("requests", "Requests answered.", ["route", "status"], **of)
        self.events = Counter("events", "Events: landed, quarantined, dead_letter or notice.", ["table", "outcome"], **of)
        self.commits = Counter("commits", "Batches landed.", ["table"], **of)
        self.failures = Counter("landing_failures", "Attempts to land that failed.", ["table"], **of)
        self.failing = Gauge("failing", "1 while the last attempt to land failed.", ["table"], **of)
        self.last_landed = Gauge("last_landed_timestamp_seconds", "When a batch landed last.", ["table"], **of)
        self.waiting_requests = Gauge("waiting_requests", "Requests that are read or wait for their events to land.", **of)
        self.waiting_bytes = Gauge("waiting_bytes", "Bytes of these requests.", **of)
        self.waited = Histogram("landing_seconds", "Seconds from a request's events to their landing.", buckets=_SECONDS, **of)

    def landed(self, table: str, *, events: int, quarantined: int) -> None:
        """Count a batch."""
        self.commits.labels(table).inc()
        self.events.labels(table, "landed").inc(events)
        self.events.labels(table, "quarantined").inc(quarantined)
        self.failing.labels(table).set(0)
        self.last_landed.labels(table).set(time.time())

    def failed(self, table: str) -> None:
        """Count an attempt that failed."""
        self.failures.labels(table).inc()
        self.failing.labels(table).set(1)
