"""Which topic is which table's, and what the brokers say of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from cdc_producers.kafka.settings import ANSWERS_WITHIN, error_of, kafka_errors
from cdc_views.errors import UsageError, did_you_mean
from cdc_views.landing.targets import StreamTarget

_BITS_63 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is: 63 bits of its id, and how many partitions it has."""

    name: str
    id: int
    partitions: int


def matched(tables: Iterable[str], named: Mapping[str, str], existing: Iterable[str]) -> dict[str, str]:
    """Return the table of each topic: those `named`, and for a table without one the topic that ends in its name.

    A table whose topic does not exist yet has none. Raises `UsageError` where a table could have several.

    >>> matched(["public.orders"], {}, ["lab.public.orders", "lab.public.users"])
    {'lab.public.orders': 'public.orders'}
    """
    found = dict(named)
    known = sorted(set(existing) - named.keys())
    for table in tables:
        if table in named.values():
            continue
        fitting = [topic for topic in known if topic == table or topic.endswith(f".{table}")]
        fitting = [table] if table in fitting else fitting
        if len(fitting) > 1:
            raise UsageError(f"{table} may be fed by any of {', '.join(fitting)}; say which: --topic TOPIC={table}")
        found.update(dict.fromkeys(fitting, table))
    return found


def topics_named(
    given: Iterable[str], of_project: Mapping[str, Iterable[str]], tables: Mapping[str, StreamTarget]
) -> dict[str, str]:
    """Return the table of each topic that `--topic` or the project file names.

    Raises:
        UsageError: A text given is not TOPIC=TABLE, of one of the tables.
    """
    topics: dict[str, str] = {}
    for text in given:
        topic, _, name = text.partition("=")
        if not topic or name not in tables:
            raise UsageError(f"--topic is {text!r}; TOPIC=TABLE was expected{did_you_mean(name, tables)}")
        topics[topic] = name
    for name in tables:
        if name not in topics.values():
            topics.update(dict.fromkeys(of_project.get(name, ()), name))
    return topics


def describe(admin: AdminClient, names: Iterable[str]) -> dict[str, Topic]:
    """Return the topics that exist, by name."""
    wanted = sorted(names)
    found: dict[str, Topic] = {}
    if not wanted:
        return found
    asked = admin.describe_topics(TopicCollection(wanted), request_timeout=ANSWERS_WITHIN)
    for name, answer in asked.items():
        try:
            description: Any = answer.result(ANSWERS_WITHIN + 5)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID):
                raise error_of(error.args[0], doing=f"asking for topic {name}") from error
            continue
        identity = description.topic_id
        mixed = identity.get_most_significant_bits() ^ identity.get_least_significant_bits()
        found[name] = Topic(name, mixed & _BITS_63, len(description.partitions))
    return found


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset that a partition still has, and the one that its next message gets."""
    with kafka_errors(f"asking where topic {topic} begins and ends"):
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWERS_WITHIN)
    return int(first), int(end)
