"""Events as Kafka Connect writes them: bare values, `{key, value, …}` lines, and `{schema, payload}` envelopes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.rules.codec.jsonread import parse_json

_INTEGER = re.compile(r"-?[0-9]{1,39}")


@dataclass(frozen=True, slots=True)
class ConnectType:
    """One Connect schema of an envelope, read on demand. A malformed part counts as not declared: the schema is only advice."""

    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The Connect type (`int64`, `bytes`, `struct`), or `""`."""
        return _text(self.raw.get("type"))

    @property
    def semantic(self) -> str:
        """The semantic type's name (`io.debezium.time.MicroTimestamp`), or `""`."""
        return _text(self.raw.get("name"))

    @property
    def scale(self) -> int | None:
        """The scale of a Connect `Decimal`, or None."""
        parameters = self.raw.get("parameters")
        found = parameters.get("scale") if isinstance(parameters, dict) else None
        return int(found) if isinstance(found, str) and found.lstrip("-").isdecimal() else None

    def field(self, name: str) -> ConnectType | None:
        """Return the schema of a struct's member, or None."""
        fields = self.raw.get("fields")
        for entry in fields if isinstance(fields, list) else ():
            if isinstance(entry, dict) and entry.get("field") == name:
                return ConnectType(entry)
        return None

    def part(self, name: str) -> ConnectType | None:
        """Return the schema of an array's `items`, or of a map's `keys` or `values`, or None."""
        found = self.raw.get(name)
        return ConnectType(found) if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class Record:
    """One event: key and value without envelopes (None: absent or null); `members` are the line's, empty for a bare value."""

    value: Any
    key: Any = None
    value_type: ConnectType | None = None
    key_type: ConnectType | None = None
    members: Mapping[str, Any] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """The topic (Debezium Server's `destination`), or `""`."""
        return _text(self.members.get("topic")) or _text(self.members.get("destination"))

    @property
    def offset(self) -> int | None:
        """The Kafka offset, or None; raises `MalformedEventError` if it is invalid."""
        found = self.members.get("offset")
        return None if found is None else integer(found, what="offset", allowed=range(1 << 63))

    @property
    def epoch(self) -> int:
        """How often the topic had been created again, which restarts its offsets; 0 if the line does not show it."""
        return integer(self.members.get("epoch") or 0, what="epoch", allowed=range(1 << 30))

    @property
    def seconds(self) -> int:
        """Kafka's timestamp of the record in seconds; 0 if the line has none."""
        found = self.members.get("timestamp")
        return 0 if found is None else integer(found, what="timestamp", allowed=range(1000 << 32)) // 1000


def read_record(text: str) -> Record:
    """Return the event on one line, bare or `{key, value, …}`; raises `MalformedEventError`."""
    document = parse_json(text)
    if not is_line(document):
        value, value_type = open_envelope(document)
        return Record(value, value_type=value_type)
    return read_line(document)


def read_line(document: Mapping[str, Any]) -> Record:
    """Return the event of a parsed `{key, value, …}` line; raises `MalformedEventError` if the producer set `_problem`."""
    problem = document.get("_problem")
    if isinstance(problem, str):
        raise MalformedEventError(problem)
    value, value_type = open_envelope(document["value"])
    key, key_type = open_envelope(document["key"])
    return Record(value, key, value_type, key_type, document)


def is_line(document: Any) -> bool:
    """Whether a document is a `{key, value, …}` line, and not a bare row that has columns of these names."""
    if not isinstance(document, dict) or not {"key", "value"} <= document.keys():
        return False
    is_row = any(name.startswith("__") for name in document)
    return not is_row and (document["value"] is None or isinstance(document["value"], dict))


def open_envelope(document: Any) -> tuple[Any, ConnectType | None]:
    """Return the payload and the schema of `{schema, payload}`; else the document itself and None."""
    if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
        return document, None
    schema = document["schema"]
    if schema is None:
        return document["payload"], None
    if isinstance(schema, dict) and "type" in schema:
        return document["payload"], ConnectType(schema)
    return document, None


def mapping(value: Any, *, what: str) -> dict[str, Any]:
    """Return `value` if it is an object; raises `MalformedEventError`."""
    if not isinstance(value, dict):
        raise MalformedEventError(f"{what} is {_named_type(value)} where an object was expected")
    return value


def member(body: Mapping[str, Any], name: str, *, what: str) -> Any:
    """Return a member; raises `MalformedEventError` if it is missing or null."""
    if body.get(name) is None:
        raise MalformedEventError(f"{what} has no {name!r}")
    return body[name]


def string(value: Any, *, what: str) -> str:
    """Return `value` if it is a string; raises `MalformedEventError`."""
    if not isinstance(value, str):
        raise MalformedEventError(f"{what} is {_named_type(value)} where a string was expected")
    return value


def integer(value: Any, *, what: str, allowed: range) -> int:
    """Return an integer within `allowed`, given as a number or a string; raises `MalformedEventError`."""
    found = int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value
    if isinstance(found, bool) or not isinstance(found, int):
        raise MalformedEventError(f"{what} is {_named_type(value)} where an integer was expected")
    if found not in allowed:
        raise MalformedEventError(f"{what} is {found}, out of range")
    return found


def _named_type(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
