"""A producer's metrics for Prometheus and its health, served on a loopback port."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

from cdc_views.errors import UsageError
from cdc_views.model.addresses import host_and_port


@dataclass
class Health:
    """What is wrong with each part of a producer, by the part's name; empty if all is well."""

    troubles: dict[str, str] = field(default_factory=dict)

    def set(self, part: str, trouble: str) -> None:
        """Record a part's trouble; an empty text clears it."""
        if trouble:
            self.troubles[part] = trouble
        else:
            self.troubles.pop(part, None)


disable_created_metrics()  # type: ignore[no-untyped-call]  # else each counter gets a second series that nobody needs


class Metrics:
    """The metrics of one producer."""

    def __init__(self, source: str) -> None:
        """Create the metrics, each with the label `source`."""
        self.registry = CollectorRegistry()
        self.source = source
        self.events = self._counter("events", "Events landed", "table")
        self.facts = self._counter("facts", "Rows added to raw tables", "table")
        self.quarantined = self._counter("quarantined", "Events put into quarantine", "table")
        self.skipped = self._counter("skipped", "Events that had landed before", "table")
        self.failures = self._counter("failures", "Attempts that failed and were repeated", "part")
        self.lag_seconds = self._gauge("lag_seconds", "Age of the oldest change that was read and has not landed")
        self.lag_bytes = self._gauge("lag_bytes", "Bytes of the source's log that have not landed")
        self.lag_events = self._gauge("lag_events", "Events of the source that have not been read")
        self.held_bytes = self._gauge("held_bytes", "Bytes of log that the source keeps for this producer")
        self.held_limit = self._gauge("held_limit_bytes", "Bytes of log at which the source refuses writes or drops changes")
        self.queue_rows = self._gauge("queue_rows", "Events that wait to be landed")
        self.queue_bytes = self._gauge("queue_bytes", "Bytes of events that wait to be landed")
        self.position = self._gauge("last_position", "First number of the last position that landed", "table")
        self.snapshot_rows = self._counter("snapshot_rows", "Rows read by snapshots", "table")
        self.troubles = self._gauge("troubles", "Parts that /healthz says are in trouble")

    def expect(self, tables: Iterable[str], *, parts: Iterable[str] = ()) -> None:
        """Begin the counters of these tables and parts at 0: the first event of a series that is not there is no increase."""
        for table in tables:
            for counter in (self.events, self.facts, self.quarantined, self.skipped):
                counter(table)
        for part in parts:
            self.failures(part)

    def _counter(self, name: str, help: str, *labels: str) -> Callable[..., Counter]:
        return partial(Counter(f"cdc_views_{name}", help, ("source", *labels), registry=self.registry).labels, self.source)

    def _gauge(self, name: str, help: str, *labels: str) -> Callable[..., Gauge]:
        return partial(Gauge(f"cdc_views_{name}", help, ("source", *labels), registry=self.registry).labels, self.source)


@contextmanager
def serving(listen: str | None, metrics: Metrics, health: Health, *, refresh: Callable[[], None]) -> Iterator[str]:
    """Serve `/healthz` and `/metrics` at `listen` (host:port), calling `refresh` before each answer; yield the address or ""."""
    if listen is None:
        yield ""
        return
    host, port = host_and_port(listen)
    handler = _handler(metrics, health, refresh)
    try:
        server = ThreadingHTTPServer((host, port), handler)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--listen {listen}: {error}; name a free port of this machine, or 0 for any") from error
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="http", daemon=True).start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _handler(metrics: Metrics, health: Health, refresh: Callable[[], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path == "/metrics":
                refresh()
                metrics.troubles().set(len(health.troubles))
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(metrics.registry))
            elif self.path == "/healthz":
                refresh()
                troubles = dict(health.troubles)
                body = {"status": "failing" if troubles else "ok", "troubles": troubles, "at": int(time.time())}
                self._answer(503 if troubles else 200, "application/json", json.dumps(body).encode())
            else:
                self._answer(404, "text/plain", b"/healthz and /metrics are here\n")

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: scrapes are no news."""

    return Handler
