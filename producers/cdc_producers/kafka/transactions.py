"""The transactional producer: publishes messages and the position that they reach in one transaction.

Positions are messages of a compacted topic, read back at each start: key `{table, stream}`, value `{at, nth}`, and
`note` if the source gave one. A transactional id fences every earlier user of it, so their open transactions end before
positions are read.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from cdc_producers.kafka.settings import ANSWERS_WITHIN, client, kafka_errors
from cdc_producers.kafka.topics import watermarks
from cdc_views.errors import TransientError, UsageError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog

_BEGINS_WITHIN, _COMMITS_WITHIN = 60.0, 15.0
"""The beginning waits until the broker has ended a predecessor's open transaction."""
_READS_WITHIN = 60.0
_FULL_WAIT = 0.1
_HANGS = (
    "topic {topic} could not be read to its end, since a transaction is open in it; where it stays so, "
    "`kafka-transactions.sh find-hanging` names it and `abort` ends it"
)


class Outgoing(NamedTuple):
    """One message to publish."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass
class Publisher:
    """A writer of transactions under one transactional id; two threads use it, one at a time.
    After a failure it makes a new producer, which reads back how far the previous one came.
    """

    settings: dict[str, Any]
    offsets_topic: str
    identity: str
    log: ProducerLog
    _producer: Any = None
    _positions: dict[str, Position] = field(default_factory=dict)
    _notes: dict[str, str] = field(default_factory=dict)
    _topics: set[str] = field(default_factory=set)
    _one_at_a_time: RLock = field(default_factory=RLock)

    def position(self, name: str) -> Position | None:
        """Return how far a stream has been published; None if nothing has."""
        with self._one_at_a_time:
            self._connected()
            return self._positions.get(name)

    def note(self, name: str) -> str:
        """Return the note that was published with a stream's position; empty if none was."""
        with self._one_at_a_time:
            self._connected()
            return self._notes.get(name, "")

    def create(self, topic: str, *, cleanup_policy: str = "") -> None:
        """Create a topic unless it exists; without a clean-up policy it gets the broker's."""
        with self._one_at_a_time:
            if topic in self._topics:
                return
            admin = client(AdminClient, self.settings)
            with kafka_errors(f"making topic {topic}"):
                if topic not in admin.list_topics(timeout=ANSWERS_WITHIN).topics:
                    self._create(admin, topic, cleanup_policy)
            self._topics.add(topic)

    def _create(self, admin: AdminClient, topic: str, policy: str) -> None:
        count = 1 if topic == self.offsets_topic else -1
        try:
            admin.create_topics([NewTopic(topic, count, -1, config={"cleanup.policy": policy} if policy else {})])[topic].result(
                ANSWERS_WITHIN + 5
            )
            self.log.info(f"made topic {topic}", topic=topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def commit(self, name: str, through: Position, messages: Sequence[Outgoing], *, note: str = "") -> None:
        """Write the messages and the stream's new position `through` with its note, all or nothing.

        Raises:
            UsageError: Another producer writes under the same transactional id.
            TransientError: It failed, or the result is unknown; `position` shows it.
        """
        with self._one_at_a_time:
            producer = self._connected()
            offset = json.dumps({"at": through.at, "nth": through.nth, **({"note": note} if note else {})}).encode()
            try:
                with kafka_errors("publishing"):
                    producer.begin_transaction()
                    for message in (*messages, Outgoing(self.offsets_topic, name.encode(), offset)):
                        _produce(producer, message)
                    producer.commit_transaction(_COMMITS_WITHIN)
            except BaseException as error:
                self._forget()
                if _is_fenced(error):
                    raise UsageError(
                        f"another producer publishes under {self.identity} and has taken over; stop one of the two"
                    ) from error
                raise
            self._positions[name] = through
            self._notes[name] = note

    def _connected(self) -> Any:
        if self._producer is None:
            self.create(self.offsets_topic, cleanup_policy="compact")
            ours = {"transactional.id": self.identity, "enable.idempotence": True}
            producer = client(Producer, {"linger.ms": 20, "compression.type": "lz4", **self.settings, **ours})
            with kafka_errors("beginning to publish"):
                producer.init_transactions(_BEGINS_WITHIN)
            self._positions = self._read_back()
            self._producer = producer
        return self._producer

    def _forget(self) -> None:
        producer, self._producer = self._producer, None
        with suppress(KafkaException):
            producer.purge()
            producer.abort_transaction(ANSWERS_WITHIN)

    def _read_back(self) -> dict[str, Position]:
        """Return each stream's newest position. Waits for other producers' open transactions, which hide later positions."""
        reading = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error"}
        settings = {**self.settings, **reading, "group.id": self.identity, "isolation.level": "read_committed"}
        found: dict[str, Position] = {}
        end, deadline = self._end(), time.monotonic() + _READS_WITHIN
        with closing(client(Consumer, settings)) as reader, kafka_errors("reading back what has been published"):
            reached, _ = watermarks(reader, self.offsets_topic, 0)
            reader.assign([TopicPartition(self.offsets_topic, 0, reached)])
            while reached < end:
                if time.monotonic() > deadline:
                    raise TransientError(_HANGS.format(topic=self.offsets_topic))
                message = reader.poll(1.0)
                if message is None:
                    continue
                reached = message.offset() + (0 if message.error() else 1)
                if message.error() is None and message.value() is not None:
                    kept, name = json.loads(message.value()), message.key().decode()
                    found[name] = Position(kept["at"], kept["nth"])
                    self._notes[name] = kept.get("note", "")
        return found

    def _end(self) -> int:
        settings = {**self.settings, "group.id": self.identity, "isolation.level": "read_uncommitted"}
        with closing(client(Consumer, settings)) as asking:
            return watermarks(asking, self.offsets_topic, 0)[1]


@dataclass
class Publishers:
    """The publishers of one run: `common` for all streams, or one like it for each (`by_stream`), so that it ends only a
    predecessor that published the same stream, and not the agents of other nodes.
    """

    common: Publisher
    by_stream: bool = False
    _known: dict[str, Publisher] = field(default_factory=dict)

    def of(self, stream: str) -> Publisher:
        """Return the publisher of a stream."""
        if not self.by_stream:
            return self.common
        identity = f"{self.common.identity}_{hashlib.sha256(stream.encode()).hexdigest()[:16]}"
        alike = Publisher(self.common.settings, self.common.offsets_topic, identity, self.common.log)
        return self._known.setdefault(stream, alike)


def _produce(producer: Any, message: Outgoing) -> None:
    while True:
        try:
            producer.produce(message.topic, message.value, message.key, headers=list(message.headers))
            producer.poll(0)
            return
        except BufferError:
            producer.poll(_FULL_WAIT)


def _is_fenced(error: BaseException) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
