"""A Kafka of the tests' own: one KRaft broker from Kafka's jars, fetched once through Ivy; no root, no package manager."""

from __future__ import annotations

import base64
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc_views_spark.ivy import fetched
from cdc_views_spark.java import cache_folder, java_home
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from services.account import free_port, started, stop

BROKER = ("org.apache.kafka", "kafka_2.13", "4.3.1")
LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
_READY_WITHIN = 90.0
_HEAP = "-Xmx320m"
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.backoff.ms": "500",
    "num.partitions": "3",
    "controlled.shutdown.enable": "false",
}
Message = tuple[bytes | None, bytes | None]
"""Key and value."""


def classpath() -> str:
    """The broker's jars, fetched on the first call."""
    folders = [
        fetched(what, cache_folder() / f"{what[1].partition('_')[0]}-{what[2]}", finish=lambda _: None)
        for what in (BROKER, LOGGING)
    ]
    return ":".join(f"{folder}/*" for folder in folders)


@dataclass
class Kafka:
    """A running broker; `stop`, `kill` and `start` as often as wanted: its folder keeps what it has."""

    folder: Path
    port: int
    controller_port: int
    settings: dict[str, str] = field(default_factory=dict)
    _server: subprocess.Popen[bytes] | None = None
    _tools: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a producer's process needs to find it."""
        return {"CDC_VIEWS_KAFKA_BOOTSTRAP_SERVERS": self.address, "CDC_VIEWS_KAFKA_GROUP_INSTANCE_ID": "one"}

    @property
    def admin(self) -> AdminClient:
        if "admin" not in self._tools:
            self._tools["admin"] = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        return self._tools["admin"]

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = _java("kafka.Kafka", str(self.folder / "server.properties"))
        client = {"bootstrap.servers": self.address, "log_level": 0}
        self._server = started(
            command,
            lambda: AdminClient(client).list_topics(timeout=1),
            log=self.folder / "log",
            within=_READY_WITHIN,
            failure=KafkaException,
        )

    def stop(self) -> None:
        """Stop it, clients or not."""
        if self._server is not None:
            stop(self._server, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        assert self._server is not None
        self._server.kill()
        self._server.wait(20)

    def create(self, topic: str, *, partitions: int = 1, **settings: str) -> None:
        """Make a topic; `cleanup_policy="compact"` and so on are its settings."""
        config = {name.replace("_", "."): value for name, value in settings.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(20)
        self._until(lambda: topic in self.admin.list_topics(timeout=5).topics)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self.admin.delete_topics([topic])[topic].result(20)
        self._until(lambda: topic not in self.admin.list_topics(timeout=5).topics)

    def grow(self, topic: str, *, partitions: int) -> None:
        """Give a topic more partitions."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(20)

    def configure(self, topic: str, settings: Mapping[str, str]) -> None:
        """Set a topic's settings."""
        entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
        resource = ConfigResource("topic", topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(20)

    def drop_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete a partition's records before an offset, as retention does."""
        wanted = TopicPartition(topic, partition, offset)
        for done in self.admin.delete_records([wanted]).values():
            done.result(20)

    def produce(self, topic: str, message: Message, *, partition: int | None = None) -> None:
        """Write a message, in order; `flush` waits for it."""
        settings = {
            "bootstrap.servers": self.address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
            "topic.metadata.refresh.interval.ms": 1000,
        }
        if "producer" not in self._tools:
            self._tools["producer"] = Producer(settings)
        producer = self._tools["producer"]
        where = {} if partition is None else {"partition": partition}
        deadline = time.monotonic() + 10
        while True:
            try:
                producer.produce(topic, message[1], message[0], **where)
                producer.poll(0)
                return
            except KafkaException as error:
                # a topic or partition that was made a moment ago
                is_new = error.args[0].code() in (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
                if not is_new or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def flush(self) -> None:
        """Wait until everything is written."""
        if self._tools["producer"].flush(60):
            raise RuntimeError("not written within 60 s")

    def send(self, topic: str, messages: Sequence[Message], *, partition: int | None = None) -> None:
        """Write messages, in order."""
        for message in messages:
            self.produce(topic, message, partition=partition)
        self.flush()

    def ends(self, topic: str) -> dict[int, int]:
        """The offset behind the last message of each partition."""
        reader = Consumer({"bootstrap.servers": self.address, "group.id": "ends"})
        try:
            numbers = reader.list_topics(topic, timeout=10).topics[topic].partitions
            return {number: reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] for number in numbers}
        finally:
            reader.close()

    def read(self, topic: str, *, wants: int | None = None) -> list[Any]:
        """All messages of a topic that are committed, partition by partition."""
        reader = Consumer(
            {
                "bootstrap.servers": self.address, "group.id": "reads", "enable.auto.commit": False, "enable.partition.eof": True,
                "isolation.level": "read_committed", "auto.offset.reset": "earliest",
            }
        )  # fmt: skip
        try:
            count = len(reader.list_topics(topic, timeout=10).topics[topic].partitions)
            reader.assign([TopicPartition(topic, number, 0) for number in range(count)])
            found, ended, deadline = [], 0, time.monotonic() + 30
            while ended < count and time.monotonic() < deadline and (wants is None or len(found) < wants):
                message = reader.poll(1)
                if message is None:
                    continue
                if message.error():
                    ended += 1
                else:
                    found.append(message)
            return found
        finally:
            reader.close()

    def landed(self, group: str, topic: str) -> bool:
        """Whether a group has committed all that can be read: what lies behind it are a transaction's markers."""
        read = dict.fromkeys(self.ends(topic), -1)
        for message in self.read(topic):
            read[message.partition()] = max(read[message.partition()], message.offset())
        committed = self.committed(group, topic)
        return all(committed[number] > last for number, last in read.items())

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a group has committed, by partition; -1001: none."""
        reader = Consumer({"bootstrap.servers": self.address, "group.id": group})
        try:
            count = len(reader.list_topics(topic, timeout=10).topics[topic].partitions)
            asked = [TopicPartition(topic, number) for number in range(count)]
            return {part.partition: part.offset for part in reader.committed(asked, timeout=10)}
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
            return dict.fromkeys(range(count), OFFSET_INVALID)  # a broker that has just begun answers for no group yet
        finally:
            reader.close()

    def format(self) -> None:
        """Make the broker's folder."""
        given = {
            **_SETTINGS,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.folder / "data"),
            **self.settings,
        }
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = _java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(properties))
        subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=self.folder)

    @staticmethod
    def _until(is_so: Any) -> None:
        deadline = time.monotonic() + 20
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError("a topic did not come or go within 20 s")
            time.sleep(0.1)


def _java(main: str, *arguments: str) -> list[str]:
    java = str(java_home(cache_folder()) / "bin" / "java")
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", _HEAP, "-Xms64m"]
    return [java, *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath(), main, *arguments]


@contextmanager
def running(**settings: str) -> Iterator[Kafka]:
    """A broker without topics, gone at the end; `settings` with `_` for `.`."""
    folder = Path(tempfile.mkdtemp(prefix="cdc-views-kafka-"))
    given = {name.replace("_", "."): value for name, value in settings.items()}
    broker = Kafka(folder, free_port(), free_port(), given)
    try:
        broker.format()
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
