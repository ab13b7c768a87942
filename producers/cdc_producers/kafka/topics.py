"""Maps topics to tables, and finds where to begin reading: behind what has landed, as the raw table's own commits record.

A topic that was deleted and recreated has the same name but other offsets; its id shows the difference (Kafka 2.8). So a
table records, for each topic, the id that it lands from and the number of earlier ids: the *epoch*.

======================================  =================================================================
stream                                  position
======================================  =================================================================
`kafka:<topic>`                         the epoch, and 63 bits of the topic's id
`kafka:<topic>/<partition>`             the offset, in epoch 0
`kafka:<topic>#<epoch>/<partition>`     the offset, in a later one
======================================  =================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from cdc_producers.kafka.options import Beginning, KafkaOptions
from cdc_producers.kafka.settings import ANSWERS_WITHIN, error_of, kafka_errors
from cdc_producers.source import LostError
from cdc_views.errors import TransientError, UsageError, did_you_mean
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_BITS_63 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Topic:
    """An existing topic: its table, 63 bits of its id, and its number of partitions."""

    name: str
    table: str
    id: int
    partitions: int


def matched(tables: Iterable[str], named: Mapping[str, str], existing: Iterable[str]) -> dict[str, str]:
    """Return the table of each topic: those `named`, and for any other table the topic that ends in the table's name.
    Leaves out a table whose topic does not exist yet; raises `UsageError` if several topics fit.

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
    """Return the table of each topic that `--topic` or the project file names; raises `UsageError` if not TOPIC=TABLE."""
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


def describe(admin: AdminClient, tables: Mapping[str, str]) -> dict[str, Topic]:
    """Return the existing topics by name; `tables` has the table of each topic."""
    wanted = sorted(tables)
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
        found[name] = Topic(name, tables[name], mixed & _BITS_63, len(description.partitions))
    return found


def watermarks(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset that a partition still has, and the offset of its next message."""
    with kafka_errors(f"asking where topic {topic} begins and ends"):
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWERS_WITHIN)
    return int(first), int(end)


@dataclass
class Positions:
    """The epoch of each topic and the next offset of each partition."""

    targets: Mapping[str, StreamTarget]
    options: KafkaOptions
    log: ProducerLog
    epochs: dict[str, int] = field(default_factory=dict)

    def begin(self, topic: Topic, consumer: Consumer) -> None:
        """Find a topic's epoch before its first partition is read, and record a new one.
        If nothing has landed and reading begins at the latest message, this records each partition's end for the next start.

        Raises:
            LostError: The topic was recreated since it landed, and no gap is accepted.
            TransientError: Another process recorded another topic meanwhile.
        """
        target = self.targets[topic.table]
        known = target.lander(f"kafka:{topic.name}").position()
        if known is None and self.options.begins is Beginning.LATEST:
            self._note_ends(topic, target, consumer)
        elif known is not None and known.nth != topic.id:
            trouble = (
                f"topic {topic.name} was deleted and made anew since {topic.table} landed from it: what had not landed is gone. "
                "Start once with --accept-gap to go on with the new one; keys that it does not have stay as they are"
            )
            if not self.options.accepts_gap:
                raise LostError(trouble)
            self.log.warning(f"{trouble}; --accept-gap: going on", topic=topic.name)
        self.epochs[topic.name] = _begin_epoch(topic, target)

    def _note_ends(self, topic: Topic, target: StreamTarget, consumer: Consumer) -> None:
        for number in range(topic.partitions):
            _, end = watermarks(consumer, topic.name, number)
            if end:
                lander = target.lander(_stream(topic.name, number, epoch=0))
                lander.land([], through=Position(end - 1), now=datetime.now(timezone.utc))

    def stream(self, topic: str, partition: int) -> str:
        """Return the stream of a partition."""
        return _stream(topic, partition, epoch=self.epochs[topic])

    def next_offset(self, topic: Topic, partition: int, consumer: Consumer) -> int:
        """Return the offset to read from, and record an accepted gap; raises `LostError` if the broker lacks it and none is."""
        lander = self.targets[topic.table].lander(self.stream(topic.name, partition))
        landed = lander.position()
        first, end = watermarks(consumer, topic.name, partition)
        if landed is None:
            return first
        wanted = landed.at + 1
        if first <= wanted <= end:
            return wanted
        place = f"topic {topic.name}, partition {partition}"
        if wanted > end:
            raise LostError(
                f"{place} ends at {end:,}, before what has landed ({landed.at:,}): another cluster, or one that lost messages. "
                "Name the right brokers, or land into a new raw table"
            )
        trouble = f"{place}: messages {wanted:,} to {first - 1:,} have not landed, and the broker has deleted them (retention)"
        if not self.options.accepts_gap:
            raise LostError(
                f"{trouble}. Raise the topic's retention.ms or retention.bytes, and start once with --accept-gap to go on "
                "without them; a source that can be read again from its beginning loses nothing"
            )
        self.log.warning(f"{trouble}; --accept-gap: going on at {first:,}", topic=topic.name, partition=partition)
        # the next start must not ask again where nothing lands until then
        lander.land([], through=Position(first - 1), now=datetime.now(timezone.utc))
        return first


def _stream(topic: str, partition: int, *, epoch: int) -> str:
    return f"kafka:{topic}{f'#{epoch}' if epoch else ''}/{partition}"


def _begin_epoch(topic: Topic, target: StreamTarget) -> int:
    """Record, unless it is recorded, that the table lands from this topic; return its epoch."""
    lander = target.lander(f"kafka:{topic.name}")
    known = lander.position()
    if known is not None and known.nth == topic.id:
        return known.at
    wanted = Position(0 if known is None else known.at + 1, topic.id)
    lander.land([], through=wanted, now=datetime.now(timezone.utc))
    if lander.position() != wanted:
        raise TransientError(f"{target.name}: another producer has begun with topic {topic.name}, too; looking again")
    return wanted.at
