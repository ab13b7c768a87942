"""Which table an event belongs to: by the station it was posted to, or by what it says of itself.

=========================================================  ============================================
an event says so in                                        it is of
=========================================================  ============================================
`source` of a Debezium envelope                            `db`, `schema`, `table`; Cassandra: `keyspace_name`, `table_name`
`__db`, `__schema`, `__table` (`__source_…`) of an         the same, as `add.fields` puts them there
unwrapped row
headers `X-DEBEZIUM-__TABLE` and so on (base64 of JSON)    the same, as `add.headers` puts them there
`keyspace`, `table` of a `cassandra-mutation`              these
=========================================================  ============================================

`{schema, payload}` and `{key, value}` around it are looked through. Debezium Server posts no topic and no key.
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
    """Where an event goes: a table of the project, or nowhere, for a reason.

    Attributes:
        table: The project's name of the table; None where there is none.
        named: The table that the event or the address names; None where neither does.
        reason: Why it has no table; empty where it has one, or needs none.
        is_notice: Whether it says nothing about rows (a heartbeat, a transaction, a schema change).
        is_event: Whether mending the project or the sender may give it a table; False for anything but a JSON object.
    """

    table: str | None = None
    named: str | None = None
    reason: str = ""
    is_notice: bool = False
    is_event: bool = True


@dataclass(frozen=True, slots=True)
class Router:
    """Knows the tables of a project, and which station is which table; None for a station of many tables."""

    tables: Sequence[str]
    stations: Mapping[str, str | None]

    def station(self, name: str) -> Route:
        """Return the route of a station; without a table, reason or notice where its events say themselves."""
        if name in self.stations:
            return Route(self.stations[name], name)
        if name in self.tables:
            return Route(name, name)
        known = [*self.stations, *self.tables]
        remedy = "post to a table's name, or start the receiver with --station NAME=TABLE"
        return Route(None, name, f"there is no station {name!r}; {remedy}{did_you_mean(name, known)}")

    def event(self, content: bytes, headers: Mapping[str, str]) -> Route:
        """Return the route of an event by what it says; header names are in small letters."""
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
    """Whether a project's table is the one named: all its parts, without the database, or as far as it was said."""
    mine = tuple(name.split("."))
    if len(parts) == 1:
        return mine[-1:] == parts
    return mine in (parts, parts[-2:], parts[-len(mine) :])


def _inner(value: Any) -> Any:
    """The value inside `{schema, payload}` and `{key, value}`."""
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
    """The value of a header: JSON in base64, or its text where `headers.encode.base64` is off."""
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
