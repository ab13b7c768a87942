"""Finds the table of an event: by the station it was posted to, or by what the event names.

=========================================================  ============================================
an event says so in                                        it is of
=========================================================  ============================================
`source` of a Debezium envelope                            `db`, `schema`, `table`; Cassandra: `keyspace_name`, `table_name`
`__db`, `__schema`, `__table` (`__source_…`) of an         the same, as `add.fields` puts them there
unwrapped row
headers `X-DEBEZIUM-__TABLE` and so on (base64 of JSON)    the same, as `add.headers` puts them there
`keyspace`, `table` of a `cassandra-mutation`              these
=========================================================  ============================================

`{schema, payload}` and `{key, value}` around an event are removed. Debezium Server posts no topic and no key.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import MalformedEventError, did_you_mean
from cdc_views.formats.debezium.notices import is_notice
from cdc_views.rules.codec.jsonread import parse_json

_HEADER = "x-debezium-__"
_OUTER = ("db", "schema", "keyspace_name")
_TABLE = ("table", "table_name")


@dataclass(frozen=True, slots=True)
class Route:
    """Where an event goes: to a table of the project, or to none for a reason.

    Attributes:
        named: The table that the event or the address names; None if neither does.
        reason: Why it has no table; empty if it has one or needs none.
        is_notice: Whether it says nothing about rows (a heartbeat, a transaction, a schema change).
        is_event: False for anything but a JSON object: no change of the project or the sender can give it a table.
    """

    table: str | None = None
    named: str | None = None
    reason: str = ""
    is_notice: bool = False
    is_event: bool = True


@dataclass(frozen=True, slots=True)
class Router:
    """A project's tables and the table of each station; None for a station of many tables."""

    tables: Sequence[str]
    stations: Mapping[str, str | None]

    def station(self, name: str) -> Route:
        """Return the route of a station; without table, reason and notice if its events name their tables."""
        if name in self.stations:
            return Route(self.stations[name], name)
        if name in self.tables:
            return Route(name, name)
        known = [*self.stations, *self.tables]
        remedy = "post to a table's name, or start the receiver with --station NAME=TABLE"
        return Route(None, name, f"there is no station {name!r}; {remedy}{did_you_mean(name, known)}")

    def event(self, content: bytes, headers: Mapping[str, str]) -> Route:
        """Return the route of an event by its content and headers, whose names are in lower case."""
        try:
            value = _inner(parse_json(content.decode()))
        except UnicodeDecodeError as error:
            return Route(reason=f"not UTF-8: {error.reason} at byte {error.start}; send JSON in UTF-8", is_event=False)
        except MalformedEventError as error:
            return Route(reason=f"{error}; send one event, a JSON object", is_event=False)
        if not isinstance(value, dict):
            return Route(reason="not an event: a JSON object was expected, one a request", is_event=False)
        if is_notice(value):
            return Route(is_notice=True)
        return self._of(_parts(value) or _header_parts(headers))

    def _of(self, parts: tuple[str, ...]) -> Route:
        if not parts:
            remedy = "post it to /station/TABLE/produce/single, or let Debezium send `source`, or add.fields=table,schema,db"
            return Route(reason=f"the event does not say which table it is of; {remedy}")
        named = ".".join(parts)
        found = [name for name in self.tables if _is_same(name, parts)]
        longest = [name for name in found if name.count(".") == max(other.count(".") for other in found)]
        if len(longest) == 1:
            return Route(longest[0], named)
        if longest:
            return Route(None, named, f"{named} may be any of {', '.join(longest)}; let the event name its schema as well")
        short = ".".join(parts[-2:])
        hint = f"; add it to the project file{did_you_mean(short, self.tables)}"
        return Route(None, named, f"the project has no table {short!r}{hint}")


def _is_same(name: str, parts: tuple[str, ...]) -> bool:
    """Return whether `parts` name the table: all parts, all but the database, or as many as the project's name has."""
    mine = tuple(name.split("."))
    if len(parts) == 1:
        return mine[-1:] == parts
    return mine in (parts, parts[-2:], parts[-len(mine) :])


def _inner(value: Any) -> Any:
    for _ in range(2):
        if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
            value = value["payload"]
        elif isinstance(value, dict) and {"key", "value"} <= value.keys() and isinstance(value["value"], dict):
            value = value["value"]
    return value


def _parts(value: Mapping[str, Any]) -> tuple[str, ...]:
    source = value.get("source")
    if isinstance(source, dict):
        return _named(source)
    if str(value.get("format", "")).startswith("cassandra-mutation") and "partition" in value:
        return _named({"keyspace_name": value.get("keyspace"), "table": value.get("table")})
    plain = {name.removeprefix("__").removeprefix("source_"): one for name, one in value.items() if name.startswith("__")}
    return _named(plain)


def _header_parts(headers: Mapping[str, str]) -> tuple[str, ...]:
    found = {name.removeprefix(_HEADER): _header(text) for name, text in headers.items() if name.startswith(_HEADER)}
    return _named({name.removeprefix("source_"): one for name, one in found.items()})


def _header(text: str) -> Any:
    """Return a header's value: JSON in base64, or plain text if `headers.encode.base64` is off."""
    with suppress(binascii.Error, UnicodeDecodeError):
        text = base64.b64decode(text, validate=True).decode()
    try:
        return _inner(parse_json(text))
    except MalformedEventError:
        return text


def _named(value: Mapping[str, Any]) -> tuple[str, ...]:
    outer = [value[name] for name in _OUTER if isinstance(value.get(name), str) and value[name]]
    table = [value[name] for name in _TABLE if isinstance(value.get(name), str) and value[name]]
    return (*outer, table[0]) if table else ()
