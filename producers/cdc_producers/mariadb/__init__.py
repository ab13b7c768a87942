"""MariaDB: a consistent snapshot without a lock, then the row binlog from there on, followed by GTID."""

from __future__ import annotations

from cdc_views.errors import UsageError
from cdc_views.landing.targets import ProducerOrder


def produce(order: ProducerOrder) -> None:
    """Land the changes of MariaDB's tables until told to stop; see `cdc_views.landing.targets.Produce`."""
    try:
        from cdc_producers.mariadb.source import MariaDbSource
        from cdc_producers.metrics import Metrics
        from cdc_producers.runtime import Runtime
    except ImportError as error:
        raise UsageError(f"`produce mariadb` needs {error.name}; pip install 'cdc-views[producers]'") from error
    from cdc_producers.mariadb.options import Options

    metrics = Metrics("mariadb")
    targets = {target.name: target for target in order.targets}
    source = MariaDbSource(targets, Options.of(order.options), order.log, metrics)
    Runtime(source, order, metrics).run()
