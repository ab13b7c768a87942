"""The Kafka source: a consumer group reads the tables' topics, each partition from behind what has landed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from cdc_producers.kafka.messages import LineWriter
from cdc_producers.kafka.options import KafkaOptions, KeyFormat
from cdc_producers.kafka.registry import Registry
from cdc_producers.kafka.settings import ANSWERS_WITHIN, client, connection, error_of, kafka_errors
from cdc_producers.kafka.topics import Positions, Topic, describe, matched
from cdc_producers.source import Emit, Emitted, Source, SourceStatus
from cdc_views.errors import CdcViewsError, TransientError
from cdc_views.landing import Position
from cdc_views.landing.targets import ProducerLog, StreamTarget

_MOST_AT_ONCE, _LEAST_AT_ONCE = 5_000, 50
"""Messages per request: each request takes the interpreter away from the lander for a moment."""
_BYTES_AT_ONCE = 4 << 20
_POLL = 0.05
_LOOK_EVERY = 10.0
_TOKEN_EVERY = 1.0
_AWAY_AFTER_MS = 10_000
"""After this time the group gives away the partitions of a killed process; `group.instance.id` makes that immediate."""
_GONE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_PASSING = frozenset({KafkaError._PARTITION_EOF, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE})
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
                      KafkaError.UNKNOWN_TOPIC_ID})  # fmt: skip


Place = tuple[str, int]
"""A topic and a partition's number."""


@dataclass
class _Partition:
    """A partition that is read: `next` is the offset after the last message read, `confirmed` the offset that the group has."""

    table: str
    stream: str
    writer: LineWriter
    next: int
    confirmed: int | None = None


@dataclass
class KafkaSource(Source):
    """Topics as a source; `topics` has the table of each topic that the options or the project file name."""

    targets: Mapping[str, StreamTarget]
    options: KafkaOptions
    topics: Mapping[str, str]
    log: ProducerLog
    _registry: Registry | None = field(init=False)
    _brokers: str = ""
    _consumer: Any = None
    _admin: Any = None
    _positions: Positions = field(init=False)
    _topics: dict[str, Topic] = field(default_factory=dict)
    _parts: dict[Place, _Partition] = field(default_factory=dict)
    _landed: dict[Place, int] = field(default_factory=dict)
    _stashed: list[Any] = field(default_factory=list)
    _at_once: int = _LEAST_AT_ONCE
    _trouble: Exception | None = None
    _looked: float = 0.0
    _heard: float = 0.0
    _behind: int | None = None
    _missing: set[str] = field(default_factory=set)
    _subscribed: list[str] = field(default_factory=list)
    _is_paused: bool = False
    _is_given: bool = False
    _joins_again: bool = False

    def __post_init__(self) -> None:
        self._registry = Registry.of(self.options.registry)
        self._positions = Positions(self.targets, self.options, self.log)

    def run(self, emit: Emit, stop: Event) -> None:
        self.close()
        self._connect()
        said = time.monotonic()
        while not stop.is_set():
            self._take(self._messages(), emit)
            self._join_again()
            if time.monotonic() - said > _TOKEN_EVERY:
                said = time.monotonic()
                emit(Emitted(token=self._offsets()))
                self._confirm()
            self._look_again()
        emit(Emitted(token=self._offsets()))

    def _connect(self) -> None:
        settings = connection(self.options.bootstrap)
        self._brokers = settings["bootstrap.servers"]
        self._admin = client(AdminClient, settings)
        self._consumer = client(
            Consumer,
            {
                "session.timeout.ms": _AWAY_AFTER_MS,
                **settings,
                "group.id": self.options.group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # each assignment sets the offset itself, so a missing offset is never skipped silently
                "auto.offset.reset": "error",
                "partition.assignment.strategy": "cooperative-sticky",
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": 5000,
                "queued.max.messages.kbytes": 32 << 10,
                "statistics.interval.ms": max(200, int(self.options.heartbeat_seconds * 1000)),
                "stats_cb": self._note_statistics,
                "error_cb": self._note_error,
                "on_commit": self._note_commit,
            },
        )
        self._trouble, self._looked, self._is_paused = None, 0.0, False
        self._is_given, self._joins_again, self._topics = False, "group.instance.id" in settings, {}
        try:
            self._look_again()
        except TransientError:
            # only callbacks report why brokers do not answer (a wrong password, a certificate)
            self._consumer.poll(0)
            if self._trouble is not None and not isinstance(self._trouble, TransientError):
                raise self._trouble from None
            raise

    def _look_again(self) -> None:
        if time.monotonic() - self._looked < _LOOK_EVERY:
            return
        with kafka_errors(f"asking {self._brokers} for the topics"):
            existing = self._consumer.list_topics(timeout=ANSWERS_WITHIN).topics
        self._looked = time.monotonic()
        tables = matched(self.targets, self.topics, existing)
        found = describe(self._admin, tables)
        self._note_missing(tables, found)
        for name, topic in found.items():
            known = self._topics.get(name)
            if known is None or known.id != topic.id:
                self._positions.begin(topic, self._consumer)
            elif known.partitions < topic.partitions:
                self._note_growth(known, topic)
        if any(known.id != found[name].id for name, known in self._topics.items() if name in found):
            raise TransientError("a topic was made anew; reading it from its beginning")
        self._topics = found
        if found and set(found) != set(self._subscribed):
            self._subscribe(list(found))

    def _subscribe(self, names: list[str]) -> None:
        self._subscribed = names
        with kafka_errors("subscribing"):
            self._subscribe_to(names)
        pairs = ", ".join(f"{name} → {self._topics[name].table}" for name in names)
        self.log.info(f"following {pairs} as group {self.options.group}", group=self.options.group, topics=names)

    def _join_again(self) -> None:
        """Once, after the first assignment: join the group again if it assigned other topics than those subscribed to.
        A member with a fixed name (`group.instance.id`) that returns before its timeout gets its former assignment, even after
        its subscription has changed. Source: Kafka, KAFKA-12759.
        """
        if not (self._is_given and self._joins_again):
            return
        self._joins_again = False
        given = {topic for topic, _ in self._parts}
        if given != set(self._subscribed):
            with kafka_errors("subscribing"):
                if given:
                    self._subscribe_to(sorted(given))
                else:
                    self._consumer.unsubscribe()
                self._subscribe_to(self._subscribed)

    def _subscribe_to(self, names: list[str]) -> None:
        self._consumer.subscribe(names, on_assign=self._assign, on_revoke=self._revoke, on_lost=self._revoke)

    def _note_missing(self, tables: Mapping[str, str], found: Mapping[str, Topic]) -> None:
        if gone := sorted(self._topics.keys() - found.keys()):
            raise TransientError(f"topic {gone[0]} is gone; what had not landed from it is lost, unless it comes back")
        waiting = {name for name in tables if name not in found}
        waiting |= {table for table in self.targets if table not in tables.values()}
        for name in sorted(waiting - self._missing):
            self.log.warning(f"there is no topic {name} yet; looking for it every {_LOOK_EVERY:g} s", topic=name)
        self._missing = waiting

    def _note_growth(self, known: Topic, topic: Topic) -> None:
        said = f"topic {topic.name} has {topic.partitions} partitions now, {known.partitions} before"
        if self.targets[topic.table].format.is_positioned:
            self.log.info(said, topic=topic.name)
            return
        self.log.warning(
            f"{said}: Kafka keeps the order of a key within one partition only, so a key that moved may show an older value; "
            "write the topic anew, and land it into a new raw table",
            topic=topic.name,
        )

    def _messages(self) -> list[Any]:
        with kafka_errors("reading"):
            if self._is_paused:
                self._consumer.resume(self._consumer.assignment())
                self._is_paused = False
            found = self._stashed or self._consumer.consume(self._at_once, timeout=_POLL)
        self._stashed = []
        if self._trouble is not None:
            raise self._trouble
        return found

    def _take(self, found: Iterable[Any], emit: Emit) -> None:
        parts: dict[Place, list[Any]] = {}
        for message in found:
            error = message.error()
            if error is None:
                parts.setdefault((message.topic(), message.partition()), []).append(message)
                continue
            self._emit_parts(parts, emit)
            parts = {}
            self._fail(error, message.topic(), message.partition())
        self._emit_parts(parts, emit)

    def _emit_parts(self, parts: Mapping[Place, list[Any]], emit: Emit) -> None:
        read = sum(self._emit_block(place, messages, emit) for place, messages in parts.items())
        if read:
            each = read // sum(map(len, parts.values())) + 1
            self._at_once = min(_MOST_AT_ONCE, max(_LEAST_AT_ONCE, _BYTES_AT_ONCE // each))

    def _emit_block(self, place: Place, messages: Sequence[Any], emit: Emit) -> int:
        """Emit the messages of a partition up to the first that cannot be read now; return their bytes."""
        part = self._parts.get(place)
        if part is None:
            return 0  # the partition was revoked meanwhile
        block, trouble = part.writer.block(messages)
        if block.through is not None:
            emit(Emitted(part.table, part.stream, Position(block.through), block.events, block.happened))
            part.next = block.through + 1
        if trouble is not None:
            raise trouble
        return block.events.size

    def _fail(self, error: KafkaError, topic: str | None, partition: int | None) -> None:
        if error.code() in _PASSING:
            return
        if error.code() in _MISSING:
            self._looked = 0.0
            return
        if error.code() in _GONE and topic is not None and partition is not None and topic in self._topics:
            self._positions.next_offset(self._topics[topic], partition, self._consumer)
        raise error_of(error, doing=f"reading {topic or 'topics'}")

    def _note_statistics(self, text: str) -> None:
        """Read the client's statistics. Source: librdkafka 2.16, `STATISTICS.md`."""
        found = json.loads(text)
        if any(broker.get("state") == "UP" for broker in found.get("brokers", {}).values()):
            self._heard = time.time()
        parts = [part for topic in found.get("topics", {}).values() for part in topic.get("partitions", {}).values()]
        lags = [part["consumer_lag"] for part in parts if part.get("consumer_lag", -1) >= 0]
        self._behind = sum(lags) if lags else None

    def _note_error(self, error: KafkaError) -> None:
        """Keep an error of the connection; the thread that reads raises it."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._trouble = TransientError(f"no broker of Kafka answers ({error.str()})")
        elif error.code() not in _PASSING and not error.retriable():
            self._trouble = error_of(error, doing="talking to the brokers")

    def _assign(self, consumer: Any, parts: list[TopicPartition]) -> None:
        """Set each new partition to what has landed; the group's own offsets are for monitoring only."""
        if self._consumer is None:
            return  # closing
        try:
            mine = [part for part in parts if self._is_there(part)]
            for part in mine:
                part.offset = self._begin(part.topic, part.partition)
            consumer.incremental_assign(mine)
            self._is_given = self._is_given or bool(parts)
        except (CdcViewsError, KafkaException) as error:
            # the reading thread, which is the caller, raises it later: librdkafka's frames lie between
            self._trouble = error if isinstance(error, CdcViewsError) else error_of(error.args[0], doing="taking a partition")

    def _is_there(self, part: TopicPartition) -> bool:
        """Return whether the partition exists in a topic that is read; a returning member may get others."""
        topic = self._topics.get(part.topic)
        if topic is None or part.partition < topic.partitions:
            return topic is not None
        with kafka_errors("asking for partitions"):
            found = self._consumer.list_topics(part.topic, timeout=ANSWERS_WITHIN).topics.get(part.topic)
        return found is not None and part.partition in found.partitions

    def _begin(self, topic: str, partition: int) -> int:
        table = self._topics[topic].table
        offset = self._positions.next_offset(self._topics[topic], partition, self._consumer)
        named = topic if topic.rpartition(".")[2] == table.rpartition(".")[2] else None
        writer = LineWriter(
            named,
            partition,
            self._positions.epochs[topic],
            self.targets[table].format.name,
            None if self._registry is None else self._registry.read,
            self.options.key_format is KeyFormat.TEXT,
        )
        self._parts[topic, partition] = _Partition(table, self._positions.stream(topic, partition), writer, offset)
        self.log.info(
            f"reading topic {topic}, partition {partition}, from {offset:,}", topic=topic, partition=partition, offset=offset
        )
        return offset

    def _revoke(self, consumer: Any, parts: list[TopicPartition]) -> None:
        mine = [part for part in parts if (part.topic, part.partition) in self._parts]
        if len(mine) < len(parts):
            consumer.incremental_unassign(mine)
        for part in mine:
            del self._parts[part.topic, part.partition]

    def keep_alive(self) -> None:
        """Stay in the group while the queue is full."""
        if self._consumer is None:
            return
        with kafka_errors("waiting"):
            self._consumer.pause(self._consumer.assignment())
            self._is_paused = True
            message = self._consumer.poll(0)
        if message is not None:
            self._stashed.append(message)
        self._confirm()

    def landed(self, token: object) -> None:
        """Take a token, which is the next offset of each partition."""
        if isinstance(token, dict):
            self._landed = token

    def _confirm(self, *, waits: bool = False) -> None:
        """Tell the group what has landed, so that its tools show the lag; reading never starts from there."""
        fresh = [(place, offset) for place, offset in self._landed.items() if place in self._parts]
        fresh = [(place, offset) for place, offset in fresh if self._parts[place].confirmed != offset]
        if not fresh:
            return
        try:
            self._consumer.commit(offsets=[TopicPartition(*place, offset) for place, offset in fresh], asynchronous=not waits)
        except KafkaException:
            return  # a rebalance, or a broker that is away: the next call repeats it
        for place, offset in fresh:
            if place in self._parts:
                self._parts[place].confirmed = offset

    def _note_commit(self, error: KafkaError | None, parts: list[TopicPartition]) -> None:
        """Mark offsets that the group did not take, as in a rebalance; the next commit repeats them."""
        for part in parts:
            known = self._parts.get((part.topic, part.partition))
            if known is not None and (error is not None or part.error is not None):
                known.confirmed = None

    def _offsets(self) -> dict[Place, int]:
        """Return the next offset of each partition; other threads call this, too."""
        return {place: part.next for place, part in list(self._parts.items())}

    def status(self) -> SourceStatus:
        position = ", ".join(f"{topic}/{part}:{offset}" for (topic, part), offset in sorted(self._offsets().items()))
        return SourceStatus(position, behind_events=self._behind, heard=self._heard)

    def close(self) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        if self._trouble is None:
            self._confirm(waits=True)
        self._consumer = self._admin = None
        self._subscribed = []
        consumer.close()
        self._parts.clear()
        self._stashed.clear()
