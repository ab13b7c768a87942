"""The Cassandra agent where something is broken: a segment, an index, a mutation, the target; on segments of a real node.

Nothing is lost, what is wrong is said, and it goes on by itself.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("cassandra")

from cdc_producers.cassandra.segments import index_of
from helpers.captured_cassandra import CAPTURED, copy, differences, log_of, project
from helpers.cassandra_tables import ORDERS, TYPED
from helpers.command_line import CommandLine
from helpers.comparing import raw_location
from helpers.producing import Producer, eventually

pytestmark = pytest.mark.heavy


@dataclass
class Trial:
    """An agent of captured segments, without a node: its `cdc_raw` has what a test puts there."""

    folder: Path
    capture: Path
    agent: Producer

    def put(self, number: int) -> Path:
        """Put a copy of the captured segment there, complete."""
        return copy(log_of(self.capture, CAPTURED), self.folder / "cdc_raw", number)

    def wait_until_landed(self, number: int, *, within: float = 90) -> None:
        """Until both tables have landed that segment."""
        for table in (ORDERS, TYPED):
            eventually(lambda table=table: self.agent.metric("last_position", table=table) >= number, within=within, what=number)

    @property
    def warnings(self) -> list[str]:
        return [line["message"] for line in self.agent.said if line["level"] == "warning"]


@pytest.fixture
def trial(run: CommandLine, lib: Path, capture: Path, tmp_path: Path) -> Iterator[Trial]:
    (tmp_path / "cdc_raw").mkdir()
    project(tmp_path, capture)
    given = ["--schema-file", str(capture / "schema.cql"), "--cdc-folder", str(tmp_path / "cdc_raw"), "--cassandra-lib", str(lib)]
    given += ["--snapshot", "never", "--work-folder", "work"]
    agent = Producer(tmp_path, {}, ["cassandra", *given])
    yield Trial(tmp_path, capture, agent)
    if agent.is_alive:
        agent.kill()


@pytest.mark.slow
def test_a_segment_with_a_wrong_byte_is_kept_and_another_replica_has_what_it_lost(trial: Trial, run: CommandLine) -> None:
    bad = trial.put(77)
    content = bytearray(bad.read_bytes())
    content[60_000] ^= 1
    bad.write_bytes(content)
    kept = bytes(content)
    trial.agent.start().wait_until_said("following", within=120)
    trial.agent.wait_until_said("that mutation is lost here", within=60)
    eventually(lambda: not bad.exists(), within=60, what="the rest landed, the segment deleted")
    assert (trial.folder / "work/aside" / bad.name).read_bytes() == kept
    trial.put(78)  # as another replica's agent would
    trial.wait_until_landed(78)
    assert differences(run, trial.capture) == []
    assert any("that mutation is lost here" in line for line in trial.warnings)
    assert trial.agent.stop() == 0


@pytest.mark.parametrize("cut", [pytest.param("header", marks=pytest.mark.slow), pytest.param("middle", marks=pytest.mark.slow)])
def test_a_segment_that_was_cut_is_told_of_and_the_next_is_read(trial: Trial, run: CommandLine, cut: str) -> None:
    bad = trial.put(77)
    content = bad.read_bytes()
    bad.write_bytes(content[:20] if cut == "header" else content[: len(content) // 8])
    trial.agent.start().wait_until_said("following", within=120)
    trial.agent.wait_until_said("cannot be read after", within=60)
    trial.put(78)
    trial.wait_until_landed(78)
    assert differences(run, trial.capture) == []
    assert trial.agent.metric("quarantined_total") == 2, "a note in each table's quarantine"
    assert any("repair this node" in line for line in trial.warnings)
    assert trial.agent.stop() == 0


@pytest.mark.slow
def test_an_index_that_is_cut_holds_its_segment_back_until_it_is_whole(trial: Trial, run: CommandLine) -> None:
    log = trial.put(77)
    index = index_of(log)
    whole = index.read_text()
    index.write_text("")
    trial.agent.start().wait_until_said("following", within=120)
    time.sleep(1)
    assert trial.agent.metric("events_total") == 0
    index.write_text(whole)
    trial.wait_until_landed(77)
    assert differences(run, trial.capture) == []
    assert trial.warnings == []
    assert trial.agent.stop() == 0


@pytest.mark.slow
def test_mutations_that_nobody_can_read_are_in_quarantine_and_the_rest_lands(trial: Trial, run: CommandLine) -> None:
    """A schema file from before an ALTER: the node itself would be asked again, a file is all there is."""
    text = (trial.capture / "schema.cql").read_text()
    older = trial.folder / "older.cql"
    older.write_text(text.replace('"v" int, ', ""))
    agent = trial.agent
    agent.arguments[agent.arguments.index("--schema-file") + 1] = str(older)
    (trial.folder / "shop.cql").write_text((trial.folder / "shop.cql").read_text().replace(" v int,", ""))
    log = trial.put(77)
    agent.start().wait_until_said("following", within=120)
    eventually(lambda: not log.exists(), within=60, what="the segment read")
    # of batches over both tables nobody can say whose part it is
    assert agent.metric("quarantined_total", table=ORDERS) > agent.metric("quarantined_total", table=TYPED) > 0
    assert any("Unknown column v" in line for line in trial.warnings)
    assert run("query", TYPED, "--format", "jsonl").out
    assert agent.stop() == 0


@contextmanager
def forbidden_to_write(agent: Producer) -> Iterator[None]:
    """Files of the process may not grow beyond what its log needs: what a quota or a full disk does, at the system call."""
    assert agent.running is not None
    _, hard = resource.prlimit(agent.running.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(agent.running.pid, resource.RLIMIT_FSIZE, (1 << 15, hard))
    yield
    resource.prlimit(agent.running.pid, resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.slow
def test_a_disk_without_room_keeps_the_segment(trial: Trial, run: CommandLine) -> None:
    trial.agent.start().wait_until_said("following", within=120)
    with forbidden_to_write(trial.agent):
        log = trial.put(77)
        trial.agent.wait_until_said("nothing is lost", within=60)
        assert trial.agent.get("/healthz")[0] == 503
        assert any("File too large" in line or "No space left" in line for line in trial.warnings)
        time.sleep(2)
        assert log.exists()
    trial.wait_until_landed(77)
    eventually(lambda: not log.exists(), within=30, what="the segment deleted")
    assert eventually(lambda: trial.agent.get("/healthz")[0] == 200)
    assert differences(run, trial.capture) == []
    assert trial.agent.stop() == 0


@pytest.mark.slow
def test_a_target_that_is_gone_for_a_minute(trial: Trial, run: CommandLine) -> None:
    trial.agent.start().wait_until_said("following", within=120)
    trial.put(77)
    trial.wait_until_landed(77)
    raw = Path(raw_location(ORDERS))
    raw.rename(f"{raw}-away")
    end, number = time.monotonic() + float(os.environ.get("CDC_VIEWS_AWAY_SECONDS", "60")), 78
    while time.monotonic() < end:
        trial.put(number)
        number += 1
        time.sleep(2)
    trial.agent.wait_until_said("the raw table is gone; put it back")
    held = list((trial.folder / "cdc_raw").glob("*.log"))
    assert len(held) >= number - 79, "what has not landed stays with the node"
    assert not raw.exists()
    Path(f"{raw}-away").rename(raw)
    trial.wait_until_landed(number - 1)
    eventually(lambda: not list((trial.folder / "cdc_raw").glob("*.log")), within=30, what="every segment deleted")
    assert trial.agent.metric("quarantined_total") == 0
    assert trial.agent.stop() == 0
    assert differences(run, trial.capture) == []
