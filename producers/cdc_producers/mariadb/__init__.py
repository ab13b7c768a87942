"""MariaDB: a consistent snapshot that blocks no writes, then the row binlog from there on, followed by GTID."""

from __future__ import annotations

from cdc_producers.mariadb.options import MariaDbOptions
from cdc_views.landing.producers import Producer
from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def _run(order: ProducerOrder, options: MariaDbOptions) -> None:
    with needs("`produce mariadb`", extra="producers"):
        from cdc_producers.mariadb.source import MariaDbSource
        from cdc_producers.metrics import Metrics
        from cdc_producers.runtime import Runtime

    metrics = Metrics("mariadb")
    targets = {target.name: target for target in order.targets}
    Runtime(MariaDbSource(targets, options, order.log, metrics, order.progress), order, metrics).run()


PRODUCER = Producer(
    _run,
    MariaDbOptions,
    """MariaDB by its row binlog: a snapshot that blocks no writes, then every change, each once.

    The connection comes from CDC_VIEWS_MARIADB_HOST (comma-separated: the first that answers), _PORT, _USER, _PASSWORD
    and _TLS (off, on, verify) with _TLS_CA, _TLS_CERT and _TLS_KEY.
    """,
)
