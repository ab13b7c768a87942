"""`cdc-views ui` as a process, and requests to it without a browser."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

_START = 60.0
_SCRIPT = "import sys; from cdc_views.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Answered:
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True)
class Served:
    """A running server: its address, and requests to it."""

    address: str
    process: subprocess.Popen[str]

    def ask(self, path: str, *, method: str = "GET", form: Mapping[str, object] | None = None, **headers: str) -> Answered:
        """Ask for a path; headers are named with `_` for `-`. Redirects are not followed."""
        place = urlsplit(self.address)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None if form is None else urlencode(form, doseq=True)
        kind = {} if form is None else {"content-type": "application/x-www-form-urlencoded"}
        try:
            connection.request(method, path, body=body, headers={**kind, **named})
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()


@contextmanager
def serving_ui(project: Path, *options: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run `cdc-views ui` on a free port until the end of the block."""
    command = [sys.executable, "-c", _SCRIPT, "ui", "--project", str(project), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment)
    try:
        yield Served(_address(process), process)
    finally:
        process.terminate()
        try:
            process.wait(15)
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    end, said = time.monotonic() + _START, ""
    while time.monotonic() < end:
        line = process.stderr.readline()
        said += line
        if found := re.search(r"open (https?://\S+)", line):
            return found[1]
        assert line, f"ui ended: {said}"
    raise AssertionError(f"ui did not start: {said}")
