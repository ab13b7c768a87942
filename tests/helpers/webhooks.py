"""A webhook on the loopback: keeps what was posted, and answers as it was asked to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Webhook:
    """Its address, what it got, and the status of its next answers."""

    url: str
    got: list[dict[str, Any]] = field(default_factory=list)
    status: int = 204
    location: str = ""


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Run one for the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(found.status)
            if found.location:
                self.send_header("Location", found.location)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Webhook(f"http://127.0.0.1:{server.server_port}/hook?key=zq-hook")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
