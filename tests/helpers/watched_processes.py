"""A receiver, a producer on the runtime, a scheduler, and files of `validate` and `verify`, as Prometheus sees them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event, Thread

from cdc_producers.metrics import Metrics
from cdc_producers.runtime import Runtime
from cdc_producers.source import SourceStatus
from services.account import free_port

from cdc_views import Project
from cdc_views.cli.commands_verify import VerifyGauges
from cdc_views.landing.targets import ProducerOrder
from cdc_views.operations.scheduling import job_of
from cdc_views.operations.verifying.findings import Verification
from cdc_views.operations.verifying.record import EqualRun
from helpers.captured import Said
from helpers.http_receiver import in_process
from helpers.memory_source import TABLE, Memory, Target, emitted
from helpers.producing import eventually
from helpers.tiny_project import CQL, event


@dataclass
class Talkative(Memory):
    """A source that knows all that a source can know."""

    started: float = field(default_factory=time.time)

    def status(self) -> SourceStatus:
        return SourceStatus("3", 1, 1 << 20, self.started, 1, held_limit_bytes=1 << 30)


@dataclass(frozen=True)
class Watched:
    """Addresses that serve `/metrics`, as host:port; `file` is the scheduler's for node_exporter, `proofs` are others' files."""

    receiver: str
    producer: str
    scheduler: str
    file: Path
    proofs: tuple[Path, ...]

    def scraped(self) -> list[str]:
        """Return what each of the three addresses exposes now, then what the files have."""
        served = [scrape(address) for address in (self.receiver, self.producer, self.scheduler)]
        return [*served, *(file.read_text("utf-8") for file in self.proofs)]


def scrape(address: str) -> str:
    """Return what an address exposes."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    """Run the three in a new project; each has landed, or run, and the receiver has an event in quarantine."""
    (folder / "shop.cql").write_text(CQL)
    table = {
        "name": TABLE,
        "schema": "shop.cql",
        "raw": {"format": "cassandra-mutation"},
        "materialize": {"schedule": "* * * * *"},
    }
    (folder / "cdc_views.yml").write_text(json.dumps({"name": "shop", "engine": "duckdb", "tables": [table]}))
    with ExitStack() as running:
        _, client = running.enter_context(in_process(folder, "--no-auth", "--port", "0"))
        assert client(f"/station/{TABLE}/produce/single", event(1)).status == 200
        assert client(f"/station/{TABLE}/produce/single", "{}").status == 202
        producer = running.enter_context(_producer(folder / "cdc_views.yml"))
        scheduler = running.enter_context(_scheduler(folder))
        yield Watched(f"127.0.0.1:{client.port}", producer, scheduler, folder / "state.prom", _proofs(folder))


@contextmanager
def _producer(project: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    order = ProducerOrder([Target(Project.load(project).table(TABLE).raw)], Said(), Event(), listen=address)
    runtime = Runtime(Talkative([emitted(number) for number in (2, 3)]), order, Metrics("memory"))
    thread = Thread(target=runtime.run, daemon=True)
    thread.start()
    landed = re.compile(r"^cdc_views_events_total\{.*\} 2\.0$", re.MULTILINE)
    eventually(lambda: _answers(address) and landed.search(scrape(address)), what="the producer lands")
    try:
        yield address
    finally:
        order.stop.set()
        thread.join(20)


@contextmanager
def _scheduler(folder: Path) -> Iterator[str]:
    job_of(Project.load(folder / "cdc_views.yml").table(TABLE)).remember(datetime.now(timezone.utc) - timedelta(hours=1))
    listen = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "cdc_views", "materialize", "--schedule", "--listen", listen, "--metrics", "state.prom"]
    with (folder / "scheduler.log").open("w") as log, subprocess.Popen(command, cwd=folder, stderr=log, stdout=log) as process:
        try:
            ran = "cdc_views_materialize_last_success_timestamp_seconds{"
            eventually(lambda: _answers(listen) and ran in scrape(listen), what=folder / "scheduler.log")
            yield listen
        finally:
            process.kill()


def _proofs(folder: Path) -> tuple[Path, ...]:
    command = [sys.executable, "-m", "cdc_views", "validate", "--no-docs", "--metrics", "tests.prom"]
    subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=120)
    now = datetime.now(timezone.utc).isoformat()
    VerifyGauges(TABLE, folder / "verify.prom").publish(Verification(TABLE), EqualRun("0/1", now, 1, is_whole=True))
    return folder / "tests.prom", folder / "verify.prom"


def _answers(address: str) -> bool:
    try:
        return bool(scrape(address))
    except OSError:
        return False
