"""Writes a message as an event of the table's raw format: `{key, value, topic, partition, offset, …}` on one line.

JSON is copied letter by letter, so no number changes. A `cassandra-mutation` event is the message's value itself.
An unreadable message becomes a line with a `_problem`, which goes to quarantine with the message's bytes.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, NamedTuple

from cdc_views.errors import CdcViewsError, MalformedEventError
from cdc_views.landing import EventBlock

if TYPE_CHECKING:
    from confluent_kafka import Message

MUTATION = "cassandra-mutation"
_MAGIC = 0
_WHOLE_ID = 5
Text = str
Registered = Callable[[bytes], Text]
"""Decodes a key or value by a schema registry and returns its JSON; raises `MalformedEventError`."""


class ReadBlock(NamedTuple):
    """The events of a partition's messages.

    Attributes:
        through: The offset of the last message; None if there was none.
        happened: When the first message was written, epoch seconds; 0 if unknown.
    """

    events: EventBlock
    through: int | None
    happened: float


@dataclass
class LineWriter:
    """A writer for the messages of one topic and partition.

    Args:
        topic: None if its last part is not the table's name: then events leave it out, since deletions are matched by that name.
        epoch: How often the topic was recreated (see `topics`); later epochs order behind earlier ones.
        format_name: The table's raw format.
        registered: Decodes parts that are framed with a schema's id; None without a registry.
        has_text_keys: Whether keys are plain text even if they look like JSON.
    """

    topic: str | None
    partition: int
    epoch: int
    format_name: str
    registered: Registered | None = None
    has_text_keys: bool = False
    _place: str = field(init=False)

    def __post_init__(self) -> None:
        named = f'"topic":{quoted(self.topic)},' if self.topic is not None else ""
        epoch = f'"epoch":{self.epoch},' if self.epoch else ""
        self._place = f'{{{named}"partition":{self.partition},{epoch}'

    def block(self, messages: Iterable[Message]) -> tuple[ReadBlock, CdcViewsError | None]:
        """Return the events up to the first message that cannot be read now, and its error (a registry that is away)."""
        offsets: list[int] = []
        contents: list[bytes] = []
        size, through, happened = 0, None, 0.0
        trouble: CdcViewsError | None = None
        for message in messages:
            try:
                content = self.content(message)
            except CdcViewsError as error:
                trouble = error
                break
            if through is None:
                kind, millis = message.timestamp()
                happened = millis / 1000 if kind and millis > 0 else 0.0
            through = int(message.offset() or 0)
            if content is not None:
                offsets.append(through)
                contents.append(content)
                size += len(content)
        return ReadBlock(EventBlock(offsets, contents, size), through, happened), trouble

    def content(self, message: Message) -> bytes | None:
        """Return the event; None if it says nothing about rows (a tombstone among mutations)."""
        key, value = message.key(), message.value()
        if self.format_name == MUTATION:
            return value
        try:
            parts = f'"key":{self._key(key)},"value":{self._value(value)}'
        except MalformedEventError as error:
            parts = _problem(str(error), key, value)
        kind, millis = message.timestamp()
        clock = f'"timestamp":{millis},' if kind and millis >= 0 else ""
        return f'{self._place}"offset":{message.offset()},{clock}{parts}}}'.encode()

    def _key(self, key: bytes | None) -> Text:
        if key is None:
            return "null"
        if _is_framed(key):
            return self._read(key)
        text = _text(key, "key")
        return quoted(text) if self.has_text_keys or not _is_json(text) else text

    def _value(self, value: bytes | None) -> Text:
        if value is None:
            return "null"
        if _is_framed(value):
            return self._read(value)
        text = _text(value, "value").strip()
        if text == "null" or (text.startswith("{") and text.endswith("}")):
            return text
        raise MalformedEventError(
            f"its value ({len(value):,} bytes) is no JSON object; for Avro give --registry, and the topic one format"
        )

    def _read(self, part: bytes) -> Text:
        if self.registered is None:
            number = int.from_bytes(part[1:_WHOLE_ID], "big")
            raise MalformedEventError(f"it is framed with the id {number} of a schema; give --registry, and read it again")
        return self.registered(part)


def _is_framed(part: bytes) -> bool:
    return len(part) >= _WHOLE_ID and part[0] == _MAGIC


def _text(part: bytes, what: str) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        raise MalformedEventError(f"its {what} is no UTF-8 text: {error.reason} at byte {error.start}") from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _problem(reason: str, key: bytes | None, value: bytes | None) -> str:
    parts = (("base64_key", key), ("base64_value", value))
    kept = {name: None if part is None else b64encode(part).decode() for name, part in parts}
    return f'"_problem":{quoted(reason)},"key":null,"value":{json.dumps(kept)}'
