"""Where reading a partition begins: behind what has landed, which the raw table's own commits say.

A topic that was deleted and made again has the same name and other offsets. Its id tells it apart (Kafka 2.8), so a
table keeps, for each topic, the id that it lands from and how many there have been before: the *epoch*.

======================================  =================================================================
stream                                  position
======================================  =================================================================
`kafka:<topic>`                         the epoch, and 63 bits of the topic's id
`kafka:<topic>/<partition>`             the offset, in epoch 0
`kafka:<topic>#<epoch>/<partition>`     the offset, in a later one
======================================  =================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from confluent_kafka import Consumer

from cdc_producers.kafka.options import Beginning, KafkaOptions
from cdc_producers.kafka.topics import Topic, watermarks
from cdc_producers.source import LostError
from cdc_views.errors import TransientError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget


@dataclass
class Positions:
    """Knows, for the topics that are read, the epoch of each and where each partition goes on."""

    targets: Mapping[str, StreamTarget]
    options: KafkaOptions
    log: ProducerLog
    epochs: dict[str, int] = field(default_factory=dict)

    def begin(self, topic: Topic, table: str, consumer: Consumer) -> None:
        """Find a topic's epoch before its first partition is read; a new one is noted.

        Where nothing has landed and reading begins at the latest message, that place is noted for each partition, so
        that the next start does not take a later one for the beginning.

        Raises:
            LostError: The topic is not the one that has landed, and no gap is accepted.
            TransientError: Another process noted another one meanwhile.
        """
        target = self.targets[table]
        known = target.lander(f"kafka:{topic.name}").position()
        if known is None and self.options.begins is Beginning.LATEST:
            self._note_ends(topic, target, consumer)
        elif known is not None and known.nth != topic.id:
            trouble = (
                f"topic {topic.name} was deleted and made anew since {table} landed from it: what had not landed is gone. "
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
        """The stream of a partition."""
        return _stream(topic, partition, epoch=self.epochs[topic])

    def next_offset(self, topic: str, partition: int, table: str, consumer: Consumer) -> int:
        """Return the offset that a partition is read from.

        Raises:
            LostError: The broker no longer has it, or never had it, and no gap is accepted.
        """
        landed = self.targets[table].lander(self.stream(topic, partition)).position()
        first, end = watermarks(consumer, topic, partition)
        if landed is None:
            return first
        wanted = landed.at + 1
        if first <= wanted <= end:
            return wanted
        place = f"topic {topic}, partition {partition}"
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
        self.log.warning(f"{trouble}; --accept-gap: going on at {first:,}", topic=topic, partition=partition)
        return first


def _stream(topic: str, partition: int, *, epoch: int) -> str:
    return f"kafka:{topic}{f'#{epoch}' if epoch else ''}/{partition}"


def _begin_epoch(topic: Topic, target: StreamTarget) -> int:
    """Note that the table lands from this topic, where that is not noted yet; returns its epoch."""
    lander = target.lander(f"kafka:{topic.name}")
    known = lander.position()
    if known is not None and known.nth == topic.id:
        return known.at
    wanted = Position(0 if known is None else known.at + 1, topic.id)
    lander.land([], through=wanted, now=datetime.now(timezone.utc))
    if lander.position() != wanted:
        raise TransientError(f"{target.name}: another producer has begun with topic {topic.name}, too; looking again")
    return wanted.at
