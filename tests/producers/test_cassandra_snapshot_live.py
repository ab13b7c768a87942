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

from cassandra_views import differences, settled, source_rows, view_rows
from cassandra_workload import TABLES, Workload, create, project
from cdc_producers.cassandra.snapshot import SnapshotSource
from cdc_producers.cassandra.snapshot_options import SnapshotOptions
from cdc_producers.metrics import Metrics
from cdc_producers.queue import Limits
from cdc_producers.runtime import Runtime
from cdc_producers.source import Emit, Emitted
from command_line import CommandLine
from deltalake import DeltaTable

from cdc_views.api import Project
from cdc_views.errors import TransientError
from cdc_views.landing.targets import ProducerOrder
from cdc_views.producing import targets_of

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
    """A snapshot source that ends the producer once it is whole; with `breaks_after`, fails after so many events."""

    inner: SnapshotSource
    stop: Event
    breaks_after: int = 0
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

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def snapshot(server: CassandraCluster, *, breaks_after: int = 0, log: Quiet | None = None, **options: Any) -> Ending:
    """Take the snapshot of the project in the working directory through the runtime; returns what it emitted."""
    log, stop, metrics = log or Quiet(), Event(), Metrics("cassandra")
    targets = targets_of(Path("cdc_views.yml"), (), format_name="cassandra-mutation", log=log)
    chosen = SnapshotOptions(hosts=(server.addresses[0],), port=server.port, **{"consistency": "ALL", "page_rows": 7, **options})
    inner = SnapshotSource({target.name: target for target in targets}, chosen, log, metrics)
    source = Ending(inner, stop, breaks_after)
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
@pytest.mark.parametrize("seed", [1, 2, 3])
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
