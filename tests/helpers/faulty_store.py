"""A proxy before a store that refuses, is slow and breaks connections, after the request took effect too; by a seed."""

from __future__ import annotations

import http.client
import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from random import Random
from typing import Any

_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length", "host"}


@dataclass
class Faults:
    """How often what happens, of all requests; `happened` counts what did."""

    seed: int
    refused: float = 0.0
    """Answered with 503 and not passed on."""
    lost: float = 0.0
    """Passed on, and the connection broken instead of an answer."""
    slow: float = 0.0
    seconds: float = 0.2
    happened: Counter[str] = field(default_factory=Counter)
    _random: Random | None = None

    def drawn(self) -> str:
        """Return what happens to the next request."""
        self._random = self._random or Random(self.seed)
        at, found = self._random.random(), "passed"
        for name in ("refused", "lost", "slow"):
            at -= getattr(self, name)
            if at < 0:
                found = name
                break
        self.happened[found] += 1
        return found


def _handler(port: int, faults: Faults) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            what = faults.drawn()
            if what == "refused":
                self._answer(503, {}, b"<Error><Code>SlowDown</Code></Error>")
                return
            if what == "slow":
                time.sleep(faults.seconds)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(self.command, self.path, body=body, headers=dict(self.headers.items()))
            answer = connection.getresponse()
            content, headers = answer.read(), {n: v for n, v in answer.getheaders() if n.lower() not in _HOP}
            size = answer.getheader("content-length")
            connection.close()
            if what == "lost":
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(2)
                return
            self._answer(answer.status, headers, content, size=size)

        def _answer(self, status: int, headers: dict[str, str], content: bytes, *, size: str | None = None) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", size if self.command == "HEAD" and size else str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def handle(self) -> None:
            with suppress(OSError):
                super().handle()

    return Handler


def _serve(port: int, faults: Faults, ours: Connection) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(port, faults)) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        ours.send(proxy.server_port)
        ours.recv()
        ours.send(dict(faults.happened))


@dataclass
class Proxy:
    """A running proxy: its port, and afterwards how often what happened."""

    port: int
    happened: dict[str, int] = field(default_factory=dict)


@contextmanager
def before(port: int, *, seed: int, **shares: float) -> Iterator[Proxy]:
    """Yield a proxy before the server at `port`, in a process of its own: deltalake keeps this one from running meanwhile."""
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(port, Faults(seed, **shares), theirs), daemon=True)
    process.start()
    proxy = Proxy(mine.recv())
    try:
        yield proxy
    finally:
        mine.send("end")
        proxy.happened.update(mine.recv())
        process.join(10)
        process.kill()
