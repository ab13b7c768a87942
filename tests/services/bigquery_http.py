"""The server of `bigquery.Store` on this machine: routes, load jobs' uploads, errors on demand."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from helpers.dialect_zetasql import GoogleSql

from services.bigquery import Body, Refused, Store

_ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("POST", r"/bigquery/v2/projects/(?P<p>[^/]+)/jobs", lambda s, m, q, b: s.run(m["p"], b)),
    ("GET", r"/bigquery/v2/projects/[^/]+/jobs/(?P<j>[^/]+)", lambda s, m, q, b: s.job(m["j"])),
    ("GET", r"/bigquery/v2/projects/[^/]+/queries/(?P<j>[^/]+)", lambda s, m, q, b: s.page(m["j"], q)),
    ("GET", r"/bigquery/v2/projects/(?P<p>[^/]+)/datasets/(?P<d>[^/]+)", lambda s, m, q, b: s.dataset(f"{m['p']}.{m['d']}")),
    (
        "DELETE",
        r"/bigquery/v2/projects/(?P<p>[^/]+)/datasets/(?P<d>[^/]+)",
        lambda s, m, q, b: s.delete_dataset(f"{m['p']}.{m['d']}"),
    ),
    (
        "PATCH",
        r"/bigquery/v2/projects/(?P<p>[^/]+)/datasets/(?P<d>[^/]+)",
        lambda s, m, q, b: s.patch_dataset(f"{m['p']}.{m['d']}", b),
    ),
    (
        "GET",
        r"/bigquery/v2/projects/(?P<p>[^/]+)/datasets/(?P<d>[^/]+)/tables/(?P<t>[^/]+)",
        lambda s, m, q, b: s.table(f"{m['p']}.{m['d']}.{m['t']}"),
    ),
    (
        "GET",
        r"/bigquery/v2/projects/(?P<p>[^/]+)/datasets/(?P<d>[^/]+)/tables/(?P<t>[^/]+)/data",
        lambda s, m, q, b: s.listed(f"{m['p']}.{m['d']}.{m['t']}", q),
    ),
    (
        "PATCH",
        r"/bigquery/v2/projects/(?P<p>[^/]+)/datasets/(?P<d>[^/]+)/tables/(?P<t>[^/]+)",
        lambda s, m, q, b: s.patch_table(f"{m['p']}.{m['d']}.{m['t']}", b),
    ),
]


def _handler(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._answer()

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            try:
                with store.lock:
                    body, status = self._found(unquote(parts.path), parse_qs(parts.query), content), 200
            except Refused as refused:
                body, status = refused.body, refused.status
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _found(self, path: str, query: dict[str, list[str]], content: bytes) -> Body:
            kind = self.headers.get("Content-Type") or ""
            if path.startswith("/upload/"):
                head = f"Content-Type: {kind}\r\n\r\n".encode()
                first, second = BytesParser().parsebytes(head + content).get_payload()  # type: ignore[misc]
                body = json.loads(first.get_payload())  # type: ignore[union-attr]
                self._note(path, body)
                return store.load(path.split("/")[5], body, second.get_payload(decode=True))  # type: ignore[union-attr, arg-type]
            body = json.loads(content) if content else {}
            self._note(path, body)
            for method, pattern, answer in _ROUTES:
                found = re.fullmatch(pattern, path)
                if found and method == self.command:
                    return dict(answer(store, found, query, body))
            raise Refused(404, "notFound", f"the stand-in has no {self.command} {path}")

        def _note(self, path: str, body: Body) -> None:
            store.requests.append((self.command, path, body))
            for fault in store.faults:
                if fault.method == self.command and re.search(fault.path, path) and fault.times > 0:
                    fault.times -= 1
                    raise fault.refused

    return Handler


@contextmanager
def served(sql: GoogleSql) -> Iterator[tuple[str, Store]]:
    """A server on a free port of this machine: its URL, and what it holds."""
    store = Store(sql)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", store
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


__all__ = ["served"]
