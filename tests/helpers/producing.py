"""A producer as a process of its own, which may be killed, and what its tables show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

from services.account import launched

ROOT = Path(__file__).parents[2]
STARTS_WITHIN = 40.0


def eventually(is_so: Callable[[], Any], *, within: float = 30.0, what: object = "", every: float = 0.1) -> Any:
    """Return what `is_so` gives once it is true; fails where that takes too long."""
    deadline = time.monotonic() + within
    while True:
        if found := is_so():
            return found
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(every)


@contextmanager
def repeating(step: Callable[[], object], *, pause: float, ends_within: float = 60) -> Iterator[None]:
    """Call `step` again and again in a thread of its own; what fails there fails here."""
    over, failures = Event(), list[Exception]()

    def work() -> None:
        try:
            while not over.wait(pause):
                step()
        except Exception as error:
            failures.append(error)

    worker = Thread(target=work, daemon=True)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join(ends_within)
    assert not failures, failures


@dataclass
class Producer:
    """`cdc-views produce …` in a project's folder; started and ended as often as wanted."""

    folder: Path
    environment: dict[str, str]
    arguments: list[str]
    running: subprocess.Popen[bytes] | None = None
    runs: int = field(default=0)

    @property
    def log(self) -> Path:
        return self.folder / f"producer{self.runs}.log"

    @property
    def said(self) -> list[dict[str, Any]]:
        """What the last run has logged."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def start(self, *more: str) -> Producer:
        assert self.running is None or self.running.poll() is not None
        self.runs += 1
        path = os.pathsep.join([str(ROOT), str(ROOT / "spark"), str(ROOT / "producers"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "cdc_views", "produce", *self.arguments, *more, "--log-format", "json"]
        with self.log.open("wb") as log:
            self.running = launched(
                command, cwd=self.folder, stderr=log, env={**os.environ, "PYTHONPATH": path, **self.environment}
            )
        return self

    def has_said(self, part: str) -> bool:
        assert self.running is not None
        if any(part in line["message"] for line in self.said):
            return True
        assert self.running.poll() is None, self.log.read_text()
        return False

    def wait_until_said(self, part: str, *, within: float = STARTS_WITHIN) -> None:
        eventually(lambda: self.has_said(part), within=within, what=f"{part!r} in {self.log.read_text()}")

    @property
    def is_alive(self) -> bool:
        return self.running is not None and self.running.poll() is None

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        assert self.running is not None
        self.running.kill()
        self.running.wait(10)

    def stop(self) -> int:
        """Ask it to end; returns its exit code."""
        assert self.running is not None
        self.running.send_signal(signal.SIGTERM)
        return self.running.wait(40)

    def get(self, path: str) -> tuple[int, str]:
        """Ask its port."""
        address = next(line["address"] for line in self.said if "address" in line)
        try:
            with urllib.request.urlopen(f"{address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(f"cdc_views_{name}{{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(part in line for part in wanted))


def ended(producer: Producer, code: int, *, within: float = 150) -> str:
    """What a producer that ends by itself with this code has said."""
    assert producer.running is not None
    assert producer.running.wait(within) == code, producer.log.read_text()
    return producer.log.read_text()
