"""Kafka: topics into raw tables; each partition's offset is in the commit of its rows."""

from __future__ import annotations

from cdc_producers.kafka.options import KafkaOptions
from cdc_views.landing.producers import Producer
from cdc_views.landing.targets import ProducerOrder
from cdc_views.model.extras import needs


def _run(order: ProducerOrder, options: KafkaOptions) -> None:
    with needs("`produce kafka`", extra="producers"):
        from cdc_producers.kafka.source import KafkaSource
        from cdc_producers.kafka.topics import topics_named
        from cdc_producers.metrics import Metrics
        from cdc_producers.runtime import Runtime

    metrics = Metrics("kafka")
    targets = {target.name: target for target in order.targets}
    topics = topics_named(options.topic, order.project.topics, targets)
    Runtime(KafkaSource(targets, options, topics, order.log), order, metrics).run()


PRODUCER = Producer(
    _run,
    KafkaOptions,
    """Topics of Kafka: Debezium's events, keys and values, or Cassandra mutations; JSON, or Avro by a schema registry.

    A setting of the client has its variable: CDC_VIEWS_KAFKA_SASL_PASSWORD is sasl.password.
    """,
    raw_format=None,
    publishes=True,
)
