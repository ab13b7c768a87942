"""Cassandra: one agent beside each node lands the mutations of the node's commit log (CDC)."""

from __future__ import annotations

from cdc_producers.cassandra.options import CassandraOptions, SnapshotMode
from cdc_views.landing.producers import Producer
from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def _run(order: ProducerOrder, options: CassandraOptions) -> None:
    with needs("`produce cassandra`", extra="producers"):
        from cdc_producers.cassandra.agent import SnapshotAndLog, SnapshotOnly
        from cdc_producers.cassandra.snapshot import SnapshotSource
        from cdc_producers.cassandra.source import CassandraSource
        from cdc_producers.metrics import Health, Metrics
        from cdc_producers.runtime import Runtime
        from cdc_producers.source import Source

    metrics, health = Metrics("cassandra"), Health()
    targets = {target.name: target for target in order.targets}
    log = CassandraSource(targets, options, order.log, health)
    snapshot = SnapshotSource(targets, options.of_snapshot, order.log, metrics, log.gaps, log.lists, order.progress)
    source: Source = log
    if options.snapshot is SnapshotMode.ONLY:
        source = SnapshotOnly(snapshot)
    elif options.snapshot is SnapshotMode.INITIAL:
        source = SnapshotAndLog(snapshot, log, order.log, health)
    Runtime(source, order, metrics, health=health).run()


PRODUCER = Producer(
    _run,
    CassandraOptions,
    """Cassandra by its commit log (CDC): what one node received, mutation by mutation, with every write time and deletion.

    Run one beside each node. The environment gives CDC_VIEWS_CASSANDRA_USER and _PASSWORD, and _TLS (off, on, verify)
    with _TLS_CA, _TLS_CERT and _TLS_KEY.
    """,
    raw_format="cassandra-mutation",
    publishes=True,
    is_one_of_many=True,
)
