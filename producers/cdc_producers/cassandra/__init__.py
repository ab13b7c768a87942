"""Cassandra: one agent beside each node, which lands what the node's commit log holds (CDC), mutation by mutation."""

from __future__ import annotations

from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def produce(order: ProducerOrder) -> None:
    """Land the changes of a node's tables until told to stop; see `cdc_views.landing.targets.Produce`."""
    with needs("`produce cassandra`", extra="producers"):
        from cdc_producers.cassandra.agent import SnapshotAndLog, SnapshotOnly
        from cdc_producers.cassandra.gaps import Gaps, Watched
        from cdc_producers.cassandra.lists import OldLists
        from cdc_producers.cassandra.snapshot import SnapshotSource
        from cdc_producers.cassandra.source import CassandraSource
        from cdc_producers.metrics import Health, Metrics
        from cdc_producers.runtime import Runtime
        from cdc_producers.source import Source
    from cdc_producers.cassandra.options import Options, Snapshot

    metrics, health = Metrics("cassandra"), Health()
    targets = {target.name: target for target in order.targets}
    options = Options.of(order.options)
    gaps = Gaps(options.work_folder, order.log, health, takes_snapshots=options.snapshot is Snapshot.INITIAL)
    watched = Watched(gaps, lists=OldLists(options.work_folder))
    snapshot = SnapshotSource(targets, options.of_snapshot, order.log, metrics, order.progress, watched=watched)
    source: Source = CassandraSource(targets, options, order.log, metrics, health, watched)
    if options.snapshot is Snapshot.ONLY:
        source = SnapshotOnly(snapshot)
    elif options.snapshot is Snapshot.INITIAL:
        source = SnapshotAndLog(snapshot, source, order.log, health)
    Runtime(source, order, metrics, health=health).run()
