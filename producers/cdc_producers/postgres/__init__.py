"""PostgreSQL: a consistent snapshot, then the logical replication slot that began with it (pgoutput)."""

from __future__ import annotations

from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def produce(order: ProducerOrder) -> None:
    """Land the changes of PostgreSQL's tables until told to stop; see `cdc_views.landing.targets.Produce`."""
    with needs("`produce postgres`", extra="producers"):
        from cdc_producers.metrics import Metrics
        from cdc_producers.postgres.source import PostgresSource
        from cdc_producers.runtime import Runtime
    from cdc_producers.postgres.options import Options

    metrics = Metrics("postgres")
    targets = {target.name: target for target in order.targets}
    source = PostgresSource(targets, Options.of(order.options), order.log, metrics, order.progress)
    Runtime(source, order, metrics).run()
