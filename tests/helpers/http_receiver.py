"""A receiver on a free port of this machine, in a thread or a process, and a client of it."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import Any

import typer
from cdc_producers.http import PRODUCER
from cdc_producers.http.server import receive

from cdc_views.cli.app import app
from cdc_views.cli.producing import facts_of, targets_of
from cdc_views.landing.targets import ProducerOrder

DATA = Path(__file__).parents[1] / "data" / "debezium"
USER, PASSWORD, SECRET = "dbz", "s3cret", "a secret of the tests, long enough"
ENVIRONMENT = {"CDC_VIEWS_HTTP_USER": USER, "CDC_VIEWS_HTTP_PASSWORD": PASSWORD, "CDC_VIEWS_HTTP_SECRET": SECRET}


@dataclass(frozen=True)
class Reply:
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> dict[str, Any]:
        """The body, which is JSON but for metrics."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def error(self) -> str:
        """What was refused, and why."""
        return str(self.json["error"])


@dataclass
class Client:
    """Posts as Debezium Server does; a connection a request. `trusted`: over TLS."""

    port: int
    token: str = ""
    trusted: ssl.SSLContext | None = None

    def __call__(self, path: str, body: Any = None, *, method: str = "POST", **headers: str) -> Reply:
        """Send one request; `body` is bytes, text, or something to print as JSON."""
        sent = body if isinstance(body, bytes | str | Iterator | None) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named.setdefault("Authorization", f"Bearer: {self.token}")
        named.setdefault("content-type", "application/json")
        connection = self._connection()
        try:
            connection.request(method, path, sent.encode() if isinstance(sent, str) else sent, named)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.trusted is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.trusted)

    def get(self, path: str) -> Reply:
        """Get an address."""
        return self(path, method="GET")

    def sign_in(self, **more: Any) -> Reply:
        """Get tokens, and post with them from now on."""
        reply = self("/auth/authenticate", {"username": USER, "password": PASSWORD, **more})
        self.token = reply.json.get("jwt", "")
        return reply

    def metric(self, name: str, **labels: str) -> float:
        """A metric's value; 0 where there is none."""
        wanted = "".join(f'(?=.*{label}="{re.escape(value)}")' for label, value in labels.items())
        found = re.search(rf"^cdc_views_http_{name}{wanted}(?:\{{.*\}})? (\S+)$", self.get("/metrics").body, re.MULTILINE)
        return float(found[1]) if found else 0.0


@dataclass
class Said:
    """A log that is kept."""

    messages: list[str] = field(default_factory=list)

    def info(self, message: str, **facts: Any) -> None:
        """Keep a message."""
        self.messages.append(message)

    warning = info


@contextmanager
def in_thread(project: Path, *options: str) -> Iterator[tuple[Client, Said]]:
    """A receiver in a thread of this process, stopped as by a signal."""
    log, stop, ports, failures = Said(), Event(), Queue[int](), list[BaseException]()
    targets = targets_of(project, (), format_name=None, log=log)
    order = ProducerOrder(targets, log, stop, project=facts_of(project))
    given = typer.main.get_command(app).commands["produce"].get_command(None, "http").make_context("http", list(options))  # type: ignore[attr-defined]
    chosen = PRODUCER.chosen(order.project, {**given.params, "port": 0})

    def run() -> None:
        try:
            receive(order, chosen, listens=ports.put)
        except BaseException as error:
            failures.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    wait_for(lambda: failures or not ports.empty())
    assert not failures, failures
    try:
        client = Client(ports.get())
        yield client, log
    finally:
        stop.set()
        thread.join(timeout=20)
        assert not thread.is_alive()


@contextmanager
def in_process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A receiver in a process of its own, killed at the end if it still runs; `folder` has its project."""
    command = [sys.executable, "-m", "cdc_views", "produce", "http", *options]
    log = folder / f"receiver-{time.monotonic_ns()}.log"
    with log.open("w") as err:
        process = subprocess.Popen(command, cwd=folder, env=os.environ | ENVIRONMENT, stderr=err, text=True)
    try:
        wait_for(lambda: "listening on" in log.read_text() or process.poll() is not None, seconds=60)
        port = re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text())
        assert port, log.read_text()
        yield process, Client(int(port[1]))
    finally:
        process.kill()
        process.wait(timeout=20)


def wait_for(condition: Any, *, seconds: float = 20) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def recorded() -> list[dict[str, Any]]:
    """The requests that Debezium Server made: path, headers, body, and what was answered."""
    return [json.loads(line) for line in (DATA / "http_requests.jsonl").read_text(encoding="utf-8").splitlines()]


def replay(client: Client, requests: Sequence[Mapping[str, Any]]) -> list[Reply]:
    """Send recorded requests with their headers, with tokens of this receiver where they had theirs."""
    refresh, replies = "", []
    for request in requests:
        kept = {
            name: text for name, text in request["headers"].items() if name not in ("Host", "Content-Length", "Authorization")
        }
        if "Authorization" in request["headers"]:
            kept["Authorization"] = request["headers"]["Authorization"].replace("<jwt>", client.token)
        body = request["body"].replace("<jwt>", refresh)
        reply = client(request["path"], body, **kept)
        if request["path"].startswith("/auth/"):
            client.token, refresh = reply.json["jwt"], reply.json["jwt_refresh_token"]
        replies.append(reply)
    return replies
