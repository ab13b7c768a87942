"""A small schema registry for tests: the part of Confluent's REST interface that clients use, in this process.

It is not a real one: it answers as the documentation says (schemas by id, registering, the compatibility of a subject's
newest version), and checks compatibility by Avro's own resolution rules: with `BACKWARD`, every value of the newest
version must be readable by the new schema. It can be away, and can lose what it knows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import fastavro
from fastavro.utils import generate_one

from services.account import free_port

_KIND = "application/vnd.schemaregistry.v1+json"


@dataclass
class Registry:
    """What it knows; `start` and `stop` as often as wanted."""

    port: int
    schemas: dict[int, Any] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: int = 0
    _server: ThreadingHTTPServer | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, schema: Any) -> int:
        """Know a schema; returns its id."""
        known = [number for number, text in self.schemas.items() if text == schema]
        if known:
            return known[0]
        self.schemas[len(self.schemas) + 1] = schema
        return len(self.schemas)

    def start(self) -> None:
        server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        self._server = server

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Return status and body."""
        self.asked += 1
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (
                (404, {"error_code": 40403, "message": "Schema not found"})
                if found is None
                else (200, {"schema": json.dumps(found)})
            )
        if method == "POST" and parts[0] == "subjects" and parts[2:] == ["versions"]:
            return self._register(parts[1], json.loads(body["schema"]))
        return 404, {"error_code": 404, "message": f"{method} {path}"}

    def _register(self, subject: str, schema: Any) -> tuple[int, Any]:
        versions = self.subjects.setdefault(subject, [])
        if versions and not readable(self.schemas[versions[-1]], schema):
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        number = self.add(schema)
        if number not in versions:
            versions.append(number)
        return 200, {"id": number, "version": versions.index(number) + 1, "subject": subject, "schema": json.dumps(schema)}


def readable(older: Any, newer: Any) -> bool:
    """Whether values of the older schema can be read with the newer one."""
    writer, reader = fastavro.parse_schema(older), fastavro.parse_schema(newer)
    try:
        for _ in range(20):
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, writer, generate_one(writer))
            stream.seek(0)
            fastavro.schemaless_reader(stream, writer, reader)
    except Exception:
        return False
    return True


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(*registry.answer("GET", self.path, None))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(*registry.answer("POST", self.path, body))

        def _answer(self, code: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", _KIND)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def running() -> Iterator[Registry]:
    """A registry that knows nothing."""
    registry = Registry(free_port())
    registry.start()
    try:
        yield registry
    finally:
        registry.stop()
