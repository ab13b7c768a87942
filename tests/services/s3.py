"""An S3 of the tests' own: moto's server, in memory, on the loopback."""

from __future__ import annotations

import http.client
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.account import free_port, started, stop
from services.stores import BUCKET

_READY_WITHIN = 60.0
_ASKED = re.compile(rb'"(?:\x1b\[\S*?m)*(GET|HEAD|PUT|POST|DELETE) (\S*) HTTP')


@dataclass(frozen=True)
class S3:
    """A running server with a bucket."""

    port: int
    log: Path

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Yield a count of the block's requests, by method and key; it is full after the block."""
        found, start = Counter[str](), self.log.stat().st_size
        yield found
        found.update(f"{method.decode()} {key.decode()}" for method, key in _ASKED.findall(self.log.read_bytes()[start:]))

    def url(self, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}"

    def options(self, *, port: int | None = None) -> dict[str, str]:
        """What a client needs to know, in the names of `storage_options:`; `port`: of something between it and the server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "no secret",
            "AWS_REGION": "us-east-1",
        }

    def make(self, bucket: str) -> None:
        """Make a bucket."""
        self.asked("PUT", f"/{bucket}")

    def asked(self, method: str, path: str) -> int:
        """Send one request and return the status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        finally:
            connection.close()


@contextmanager
def running(folder: Path) -> Iterator[S3]:
    """Run a server with an empty bucket; its log goes to `folder`."""
    server = S3(free_port(), folder / "s3.log")
    command = [sys.executable, str(Path(__file__).with_name("s3_server.py")), "-H", "127.0.0.1", "-p", str(server.port)]
    process = started(command, lambda: server.make(BUCKET), log=server.log, within=_READY_WITHIN, failure=OSError)
    try:
        yield server
    finally:
        stop(process)
