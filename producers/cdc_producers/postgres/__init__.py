"""PostgreSQL: a consistent snapshot, then the logical replication slot that began with it."""

from __future__ import annotations

from cdc_producers.postgres.options import Dropped, PostgresOptions
from cdc_views.landing.producers import Producer
from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def _run(order: ProducerOrder, options: PostgresOptions) -> None:
    with needs("`produce postgres`", extra="producers"):
        from cdc_producers.metrics import Metrics
        from cdc_producers.postgres.dropping import drop
        from cdc_producers.postgres.source import PostgresSource
        from cdc_producers.runtime import Runtime

    if options.drop is not Dropped.NOTHING:
        drop(options.slot, options.publication if options.drop is Dropped.ALL else None, order.log, plugin=options.plugin)
        return
    metrics = Metrics("postgres")
    targets = {target.name: target for target in order.targets}
    Runtime(PostgresSource(targets, options, order.log, metrics, order.progress), order, metrics).run()


PRODUCER = Producer(
    _run,
    PostgresOptions,
    """PostgreSQL by logical replication: a snapshot, then every change, each once.

    The connection comes from libpq's variables (PGHOST, PGUSER, PGPASSWORD …) or CDC_VIEWS_POSTGRES_DSN.
    """,
    publishes=True,
)
