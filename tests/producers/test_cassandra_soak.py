"""A million mutations through one agent: its memory, and Java's, stay flat; at half of its speed they land within two seconds."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("cassandra")

from helpers.captured_cassandra import CAPTURED, copy, differences, log_of, project
from helpers.cassandra_processes import reader_of
from helpers.command_line import CommandLine
from helpers.producing import Producer

pytestmark = pytest.mark.slow
A_SEGMENT = 5_400
"""Mutations of the captured segment."""
MUTATIONS = int(os.environ.get("CDC_VIEWS_SOAK", "1000000"))
_GROWS = 1.3
_LAG = 2.0
_PACED_SECONDS = 30.0
_WAITING = 8
"""Segments that wait in the folder while it runs as fast as it can."""


def memory(pid: int) -> float:
    """What a process has in memory now, MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@dataclass
class Feed:
    """Puts copies of the captured segment into a folder, under ids that ascend."""

    capture: Path
    folder: Path
    put: int = 0
    python: list[float] = field(default_factory=list)
    java: list[float] = field(default_factory=list)

    def one(self) -> None:
        self.put += 1
        copy(log_of(self.capture, CAPTURED), self.folder, self.put)

    @property
    def waiting(self) -> int:
        return len(list(self.folder.glob("*.log")))

    def until_read(self, leaves: int = 0) -> None:
        """Wait until no more than so many are left."""
        deadline = time.monotonic() + 120
        while self.waiting > leaves:
            assert time.monotonic() < deadline, f"{self.waiting} segments wait"
            time.sleep(0.02)


def test_memory_is_flat_and_lag_small(run: CommandLine, lib: Path, capture: Path, tmp_path: Path) -> None:
    (tmp_path / "cdc_raw").mkdir()
    project(tmp_path, capture)
    given = ["--schema-file", str(capture / "schema.cql"), "--cdc-folder", str(tmp_path / "cdc_raw"), "--cassandra-lib", str(lib)]
    given += ["--snapshot", "never", "--work-folder", "work"]
    agent = Producer(tmp_path, {}, ["cassandra", *given]).start()
    try:
        agent.wait_until_said("following", within=120)
        feed, begun, tenth = Feed(capture, tmp_path / "cdc_raw"), time.monotonic(), -(-MUTATIONS // A_SEGMENT // 10)
        assert agent.running is not None
        for _ in range(10):
            for _ in range(tenth):
                feed.until_read(_WAITING)
                feed.one()
            feed.python.append(memory(agent.running.pid))
            feed.java.append(memory(reader_of(agent)))
        feed.until_read()
        speed = feed.put * A_SEGMENT / (time.monotonic() - begun)
        said = [f"{feed.put * A_SEGMENT:,} mutations, {speed:,.0f} /s"]
        for what, found in (("Python", feed.python), ("Java", feed.java)):
            said.append(f"{what} MiB at each tenth: {' '.join(f'{size:.0f}' for size in found)}")
            assert found[-1] <= _GROWS * found[1], what
        lags = paced(feed, agent, A_SEGMENT / (speed / 2))
        said.append(f"lag at half of that speed: median {sorted(lags)[len(lags) // 2]:.2f} s, most {max(lags):.2f} s")
        assert max(lags) < _LAG
        feed.until_read()
        assert agent.metric("quarantined_total") == 0
        assert agent.stop() == 0
    finally:
        if agent.is_alive:
            agent.kill()
    assert differences(run, capture) == []
    print("\n".join(said))  # `-s` shows it


def paced(feed: Feed, agent: Producer, every: float) -> list[float]:
    """A segment each so many seconds; the lags that were seen meanwhile."""
    lags, begun, put = [], time.monotonic(), feed.put
    while (passed := time.monotonic() - begun) < _PACED_SECONDS:
        if passed >= (feed.put - put) * every:
            feed.one()
        lags.append(agent.metric("lag_seconds"))
        time.sleep(0.1)
    return lags
