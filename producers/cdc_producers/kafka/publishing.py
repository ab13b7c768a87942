"""Kafka as the target of any source: publishes each table's events to a topic, each event once.

The runtime uses a lander here like a raw table's: it knows how far its stream has come, and writes events and position in one
transaction. An event that cannot be published goes to `<topic>__quarantine` in the same transaction, with the reason.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cdc_producers.kafka.messages import MUTATION
from cdc_producers.kafka.registry import Registry
from cdc_producers.kafka.rows import Encoder, JsonEncoder, Record, Write, writer
from cdc_producers.kafka.rows_avro import AvroEncoder
from cdc_producers.kafka.settings import connection
from cdc_producers.kafka.transactions import Outgoing, Publisher, Publishers
from cdc_views.errors import CdcViewsError, MalformedEventError, UsageError
from cdc_views.formats.base import RawFormat, SourceLine
from cdc_views.landing import BatchReport, Position, Rejection, StreamEvent
from cdc_views.landing.blocks import one_by_one
from cdc_views.landing.targets import EventLander, ProducerOrder, StreamTarget
from cdc_views.model.schema import TableSchema

_SCHEME = "kafka://"
_FORMATS = ("json", "avro")
_SHOWN = 5


def published(order: ProducerOrder) -> ProducerOrder:
    """Return the order with topics as its targets; the entry point of group `cdc_views.targets`.
    Raises `UsageError` if the address, the format or a setting is invalid.
    """
    to = order.to
    if to is None or not to.address.startswith(_SCHEME):
        raise UsageError(f"--to is {'' if to is None else to.address!r}; kafka://HOST:PORT,… was expected")
    if to.output_format not in _FORMATS:
        raise UsageError(f"--output-format is {to.output_format!r}; {' or '.join(_FORMATS)} was expected")
    registry = Registry.of("") if to.output_format == "avro" else None
    if to.output_format == "avro" and registry is None:
        raise UsageError("--output-format avro needs a schema registry; set CDC_VIEWS_SCHEMA_REGISTRY_URL")
    for target in order.targets:
        if target.format.name == MUTATION and registry is not None:
            raise UsageError(
                f"--output-format avro: the events of {target.name} are mutations, which are published as JSON alone; "
                "take --output-format json, or name the other tables with --table"
            )
    topics = {target.name: ".".join(filter(None, (to.topic_prefix, target.name))) for target in order.targets}
    digest = hashlib.sha256("\0".join(sorted(topics.values())).encode()).hexdigest()[:16]
    settings = connection(to.address.removeprefix(_SCHEME).rstrip("/"))
    offsets = ".".join(filter(None, (to.topic_prefix, "cdc_views_offsets")))
    publishers = Publishers(Publisher(settings, offsets, f"cdc_views_{digest}", order.log), by_stream=to.by_stream)
    return replace(order, targets=[TopicTarget(target, topics[target.name], publishers, registry) for target in order.targets])


@dataclass
class TopicTarget(StreamTarget):
    """The topic of one table."""

    table: StreamTarget
    topic: str
    publishers: Publishers
    registry: Registry | None
    _write: Write | None = None
    _version: object = None

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def schema(self) -> TableSchema:
        return self.table.schema

    @property
    def schema_file(self) -> Path | None:
        return self.table.schema_file

    @property
    def raw(self) -> None:
        return None

    @property
    def place(self) -> str:
        return f"{_SCHEME}{self.topic}"

    @property
    def format(self) -> RawFormat:
        return self.table.format

    def lander(self, stream: str) -> TopicLander:
        return TopicLander(self, stream, self.publishers.of(stream))

    def version(self) -> object:
        return self.table.version()

    def follow(self) -> None:
        """Do nothing: a topic has no view."""

    def write(self, publisher: Publisher) -> Write:
        """Return the function that makes an event's records by the current schema; create the topic and register its schemas."""
        if self._write is None or self._version != self.version():
            self._version = self.version()
            is_rows, schema = self.format.name != MUTATION, self.format.stored_schema(self.schema)
            publisher.create(self.topic, cleanup_policy="compact" if is_rows else "delete")
            encoder: Encoder = JsonEncoder(schema)
            if is_rows and self.registry is not None:
                encoder = AvroEncoder(schema, self.topic, self.registry)
            self._write = writer(self.format, schema, encoder)
        return self._write


@dataclass
class TopicLander(EventLander):
    """The publisher of one stream of one table."""

    target: TopicTarget
    stream: str
    publisher: Publisher

    @property
    def raw(self) -> None:
        return None

    @property
    def _name(self) -> str:
        return json.dumps({"table": self.target.name, "stream": self.stream}, sort_keys=True)

    def position(self) -> Position | None:
        return self.publisher.position(self._name)

    def note(self) -> str:
        return self.publisher.note(self._name)

    def land(self, events: Sequence[StreamEvent], *, through: Position, now: datetime, note: str = "") -> BatchReport:
        known = self.position()
        if known is not None and known >= through:
            return BatchReport(skipped=sum(event.items for event in events))
        given = list(one_by_one(events))
        fresh = [event for event in given if known is None or event.position > known]
        messages: list[Outgoing] = []
        bad: list[tuple[StreamEvent, str]] = []
        for event in fresh:
            try:
                messages += [Outgoing(self.target.topic, *record) for record in self._records(event)]
            except MalformedEventError as error:
                bad.append((event, str(error)))
        count = len(messages)
        if bad:
            self.publisher.create(f"{self.target.topic}__quarantine")
            messages += [self._dead(event, reason) for event, reason in bad]
        self.publisher.commit(self._name, through, messages, note=note)
        return BatchReport(
            events=len(fresh) - len(bad),
            facts=count,
            skipped=len(given) - len(fresh),
            quarantined=len(bad),
            rejections=tuple(Rejection(event.position.nth, reason) for event, reason in bad[:_SHOWN]),
        )

    def _records(self, event: StreamEvent) -> list[Record]:
        write = self.target.write(self.publisher)
        found = self.target.format.redacted(_bytes(event))
        if found.reason:
            raise MalformedEventError(found.reason)
        try:
            text = found.content.decode()
        except UnicodeDecodeError as error:
            raise MalformedEventError(f"not UTF-8: {error.reason} at byte {error.start}") from error
        try:
            return write(SourceLine(text, event.position.nth, event.position.at))
        except (MalformedEventError, MemoryError):
            raise
        except CdcViewsError as error:
            raise MalformedEventError(str(error)) from error
        except Exception as error:
            # as in landing: a bug in a decoder costs one event only
            raise MalformedEventError(f"it cannot be written as a row: {type(error).__name__}: {error}") from error

    def _dead(self, event: StreamEvent, reason: str) -> Outgoing:
        content = self.target.format.kept(_bytes(event))
        place: dict[str, Any] = {"stream": self.stream, "at": event.position.at, "nth": event.position.nth}
        headers = (("reason", reason.encode()), ("table", self.target.name.encode()))
        return Outgoing(f"{self.target.topic}__quarantine", json.dumps(place).encode(), content, headers)


def _bytes(event: StreamEvent) -> bytes:
    assert isinstance(event.content, bytes), "sources that make rows themselves land in raw tables alone"
    return event.content
