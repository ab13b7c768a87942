"""Kafka: topics into raw tables, each partition's offset in the commit of its rows."""

from __future__ import annotations

from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def produce(order: ProducerOrder) -> None:
    """Land what Kafka's topics hold until told to stop; see `cdc_views.landing.targets.Produce`."""
    with needs("`produce kafka`", extra="producers"):
        from cdc_producers.kafka.source import KafkaSource
        from cdc_producers.metrics import Metrics
        from cdc_producers.runtime import Runtime
    from cdc_producers.kafka.options import Options

    metrics = Metrics("kafka")
    targets = {target.name: target for target in order.targets}
    source = KafkaSource(targets, Options.of(order.options), order.log)
    Runtime(source, order, metrics).run()
