"""A snapshot of a real Cassandra: what its view shows is what the cluster shows, whatever was written before."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("cassandra")

from cdc_producers.cassandra.gaps import Gaps
from cdc_producers.cassandra.lists import OldLists
from cdc_producers.cassandra.options import SnapshotOptions
from cdc_producers.cassandra.snapshot import SnapshotSource
from cdc_producers.metrics import Health, Metrics
from cdc_producers.queue import Limits
from cdc_producers.runtime import Runtime
from cdc_producers.source import Emit, Emitted
from helpers.cassandra_views import differences, settled, source_rows
from helpers.cassandra_workload import TABLES, Workload, create, project
from helpers.command_line import CommandLine

from cdc_views.cli.producing import targets_of
from cdc_views.errors import TransientError
from cdc_views.landing.targets import ProducerOrder

if TYPE_CHECKING:
    from cassandra.cluster import Session
    from services.cassandra import CassandraCluster


@dataclass
class Quiet:
    """A log that keeps what it was told."""

    said: list[str] = field(default_factory=list)

    def info(self, message: str, **facts: Any) -> None:
        self.said.append(message)

    def warning(self, message: str, **facts: Any) -> None:
        self.said.append(message)


@dataclass
class Ending:
    """A snapshot source that ends the producer once it is whole; it may fail, or be stopped, after so many events."""

    inner: SnapshotSource
    stop: Event
    breaks_after: int = 0
    stops_after: int = 0
    emitted: list[Emitted] = field(default_factory=list)

    def run(self, emit: Emit, stop: Event) -> None:
        self.inner.run(lambda item: self._emit(emit, item), stop)
        self.stop.set()

    def _emit(self, emit: Emit, item: Emitted) -> None:
        if self.breaks_after and len(self.emitted) == self.breaks_after:
            self.breaks_after = 0
            raise TransientError("the test takes the cluster away")
        self.emitted.append(item)
        emit(item)
        if len(self.emitted) == self.stops_after:
            self.stop.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def snapshot(server: CassandraCluster, *, breaks_after: int = 0, stops_after: int = 0, **options: Any) -> Ending:
    """Take the snapshot of the project in the working directory through the runtime; returns what it emitted."""
    log, stop, metrics = Quiet(), Event(), Metrics("cassandra")
    targets = targets_of(Path("cdc_views.yml"), (), format_name="cassandra-mutation", log=log)
    chosen = SnapshotOptions(host=server.addresses[0], port=server.port, **{"consistency": "ALL", "page_rows": 7, **options})
    gaps, lists = Gaps(Path("work"), log, Health()), OldLists(Path("work"))
    inner = SnapshotSource({target.name: target for target in targets}, chosen, log, metrics, gaps, lists)
    source = Ending(inner, stop, breaks_after, stops_after)
    order = ProducerOrder(targets, log, stop, exits_on_error=True, listen=None)
    Runtime(source, order, metrics, Limits(batch_rows=50, batch_seconds=0.2)).run()
    return source


@pytest.fixture
def session(cassandra_node: CassandraCluster) -> Session:
    return cassandra_node.session()


@pytest.fixture
def keyspace(session: Session, run: CommandLine, tmp_path: Path) -> Iterator[str]:
    """A keyspace with the workload's tables, and a project of them in the working directory."""
    name = f"snap{time.time_ns() % 10**9}"
    create(session, name, replicas=1)
    project(tmp_path, name)
    yield name
    session.execute(f"DROP KEYSPACE {name}")


@pytest.mark.live
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_the_view_of_a_snapshot_is_what_the_cluster_shows(
    cassandra_node: CassandraCluster, session: Session, keyspace: str, run: CommandLine, seed: int
) -> None:
    Workload(session, keyspace, seed).run(1200)
    taken = snapshot(cassandra_node)
    assert taken.inner.is_whole
    settled()
    assert sum(source_rows(session, keyspace, table).total() for table in TABLES) > 50
    assert differences(session, run, keyspace) == []
    assert run("materialize").code == 0
    assert differences(session, run, keyspace) == []
    session.execute(f"UPDATE {keyspace}.simple SET b = 'not in the snapshot' WHERE k = 'a'")
    assert len(differences(session, run, keyspace)) >= 1, "the comparison sees a difference"


@pytest.mark.live
def test_a_snapshot_that_was_broken_off_goes_on_where_it_was(
    cassandra_node: CassandraCluster, session: Session, keyspace: str, run: CommandLine
) -> None:
    Workload(session, keyspace, 4).run(800)
    broken = snapshot(cassandra_node, breaks_after=20)
    assert broken.inner.is_whole
    again = snapshot(cassandra_node)
    assert (again.emitted, "simple: nothing is read" in str(vars(again.inner.log))) == ([], True), "nothing is left to read"
    settled()
    assert differences(session, run, keyspace) == []


@pytest.mark.live
def test_a_snapshot_that_was_stopped_reads_only_the_rest(
    cassandra_node: CassandraCluster, session: Session, keyspace: str, run: CommandLine
) -> None:
    for k in range(300):
        session.execute(f"INSERT INTO {keyspace}.simple (k, a) VALUES ('{k}', {k})")
    stopped = snapshot(cassandra_node, stops_after=120)
    assert not stopped.inner.is_whole
    for k in range(300):  # rows come and go meanwhile; the log would tell
        session.execute(f"DELETE FROM {keyspace}.simple WHERE k = '{k}'")
        session.execute(f"INSERT INTO {keyspace}.simple (k, a) VALUES ('new {k}', {k})")
    rest = [item for item in snapshot(cassandra_node).emitted if item.content is not None]
    assert 100 < len(rest) < 250, "not from the beginning"
    assert min(item.position for item in rest) > min(item.position for item in stopped.emitted)
    shown, read = {row["k"] for row in run.query(f"{keyspace}.simple")}, keys(rest)
    assert read <= shown
    assert shown - read <= keys(stopped.emitted)
    assert len(keys(stopped.emitted) - shown) <= 1, "but the one that was being said when it was stopped"


def keys(emitted: list[Emitted]) -> set[str]:
    """The partitions of `simple` that were emitted."""
    return {json.loads(item.content)["partition"]["k"] for item in emitted if item.content is not None}


@pytest.mark.live
def test_expiry_is_told_to_the_second(cassandra_node: CassandraCluster, session: Session, keyspace: str) -> None:
    """CQL tells the seconds left; where a page is read over the turn of a second, it is read again."""
    for k in range(40):
        session.execute(f"INSERT INTO {keyspace}.simple (k, a) VALUES ('{k}', 1) USING TTL 5000")
    told: dict[tuple[str, int], set[int]] = {}
    for n in range(12):
        for item in snapshot(cassandra_node, name=f"snapshot{n}", page_rows=3).emitted:
            for row in json.loads(item.content or b"{}").get("rows", ()):
                (cell,) = row["cells"]
                told.setdefault((json.loads(item.content or b"")["partition"]["k"], cell["written"]), set()).add(
                    cell["expires_at"]
                )
    assert len(told) == 40
    assert all(len(instants) == 1 for instants in told.values())
    assert all(0 <= instants.copy().pop() - (written // 1_000_000 + 5000) <= 1 for (_, written), instants in told.items())
