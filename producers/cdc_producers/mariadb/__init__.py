"""MariaDB: a consistent snapshot without a lock, then the row binlog from there on, followed by GTID."""

from __future__ import annotations

from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def produce(order: ProducerOrder) -> None:
    """Land the changes of MariaDB's tables until told to stop; see `cdc_views.landing.targets.Produce`."""
    with needs("`produce mariadb`", extra="producers"):
        from cdc_producers.mariadb.source import MariaDbSource
        from cdc_producers.metrics import Metrics
        from cdc_producers.runtime import Runtime
    from cdc_producers.mariadb.options import Options

    metrics = Metrics("mariadb")
    targets = {target.name: target for target in order.targets}
    source = MariaDbSource(targets, Options.of(order.options), order.log, metrics)
    Runtime(source, order, metrics).run()
