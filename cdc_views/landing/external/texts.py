"""Writes Arrow values as the JSON text that an adapter reads, exactly, by type and by place.

A sink may have made typed columns of JSON, so the writer must know the source's column: it writes the bytes of a blob and of a
decimal in different ways, and also a clock and a timestamp column.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cdc_views.errors import MalformedEventError, UsageError
from cdc_views.model.naming import sanitized
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, SetOf, TupleOf, Udt, VectorOf, contains
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.jsontext import java_double, quote
from cdc_views.rules.codec.times import date_text, datetime_text, time_text

Writer = Callable[[Any], str]  # turns a Python value of a `plain_type` into JSON text; raises `MalformedEventError`

_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_CLOCKS = {"ts_ms": "ms", "ts_us": "us", "ts_ns": "ns", "timestamp": "ms", "deletion_ts": "us"}
"""Members that count time in integers, which a sink may have turned into timestamps; prefixes (`__source_`) are allowed."""
_CELL = {"value", "deletion_ts", "set"}
_PARTS = ("before", "after", "source", "transaction")


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """The place of a value in an event.

    Attributes:
        schema: The source table's.
        is_event: Its members are an event's: `op`, `source`, `before`, `after`.
        is_row: Its members are columns of the source table.
        is_cell: It is a column in the form of Debezium's Cassandra connector: `{value, deletion_ts, set}`.
        kind: The type of the column to which the value belongs; None outside columns.
        clock: The unit in which a timestamp is counted; `""`: it is written as text.
        ignored: Members that are left out.
    """

    schema: TableSchema
    is_event: bool = False
    is_row: bool = False
    is_cell: bool = False
    kind: LogicalType | None = None
    clock: str = ""
    ignored: frozenset[str] = frozenset()

    def member(self, name: str, kind: pa.DataType) -> ValuePlace:
        """Return the place of a struct's member, given its Arrow type."""
        if self.is_row and self.schema.has(name):
            is_cell = pa.types.is_struct(kind) and "value" in _names(kind) and _names(kind) <= _CELL
            return ValuePlace(self.schema, is_cell=is_cell, kind=self.schema.column(name).type)
        if self.is_cell:
            return ValuePlace(self.schema, kind=self.kind) if name == "value" else ValuePlace(self.schema, clock=_clock(name))
        if isinstance(self.kind, Udt | TupleOf):
            return ValuePlace(self.schema, kind=self.kind.field_type(name) if isinstance(self.kind, Udt) else self.kind)
        is_row = self.is_event and name in ("before", "after")
        return ValuePlace(self.schema, is_row=is_row, clock=_clock(name))

    def part(self, *kinds: type, name: str) -> ValuePlace:
        """Return the place of a collection's elements: `name` is the attribute of its logical type, one of `kinds`."""
        return ValuePlace(self.schema, kind=getattr(self.kind, name) if isinstance(self.kind, kinds) else None)


def _clock(name: str) -> str:
    return next((unit for clock, unit in _CLOCKS.items() if name == clock or name.endswith(f"_{clock}")), "")


def _names(kind: pa.StructType) -> set[str]:
    return {field.name for field in kind}


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are texts, or bytes that may be texts."""
    types = pa.types
    return is_binary(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def is_binary(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    types = pa.types
    checks = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(check(kind) for check in checks)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type to which values are cast before Python reads them: its own dates and times hold less than Arrow's."""
    types = pa.types
    if types.is_timestamp(kind) or types.is_time64(kind):
        return pa.int64()
    if types.is_date32(kind):
        return pa.int32()
    if types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if _is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def writer_of(kind: pa.DataType, place: ValuePlace) -> Writer:
    """Return the writer of an Arrow type's values at `place` (null: `null`). Raises `UsageError` for a type that no event has."""
    write = _nested(kind, place) or _times(kind, place) or _scalar(kind, place)
    if write is None:
        raise UsageError(f"type {kind} is none that an event's values have")
    return lambda value: "null" if value is None else write(value)


def _nested(kind: pa.DataType, place: ValuePlace) -> Writer | None:
    if pa.types.is_struct(kind):
        return _struct(kind, place)
    if pa.types.is_map(kind):
        return _map(kind, place)
    if _is_list(kind) and isinstance(place.kind, MapOf) and _is_entry(kind.value_type):
        return _entries(kind.value_type, place)
    if _is_list(kind):
        write = writer_of(kind.value_type, place.part(ListOf, SetOf, VectorOf, name="element"))
        return lambda values: "[" + ",".join(map(write, values)) + "]"
    if pa.types.is_dictionary(kind):
        return writer_of(kind.value_type, place)
    return None


def _struct(kind: pa.StructType, place: ValuePlace) -> Writer:
    names = _source_names(kind, place)
    if not isinstance(place.kind, Udt) and (_names(kind) >= {"scale", "value"} or "wkb" in _names(kind)):
        place = replace(place, kind=None)  # Debezium's structs of base64, for any column type
    writers = {field.name: _member(field, place, name=names.get(field.name, field.name)) for field in kind}
    quoted = {name: quote(names.get(name, name)) for name in writers}
    # an unknown column is an error only if it has a value
    optional = {name for name in writers if place.is_row and not place.schema.has(names.get(name, name))}

    def write(value: Mapping[str, Any]) -> str:
        said = (name for name in writers if name not in place.ignored and not (name in optional and value[name] is None))
        return "{" + ",".join(f"{quoted[name]}:{writers[name](value[name])}" for name in said) + "}"

    return write


def _member(field: pa.Field, place: ValuePlace, *, name: str) -> Writer:
    if place.is_event and name in _PARTS and is_text(field.type):
        return lambda value: "null" if value is None else embedded(name, value)
    try:
        return writer_of(field.type, place.member(name, field.type))
    except UsageError as error:
        raise UsageError(f"{field.name}: {error}") from error


def _source_names(kind: pa.StructType, place: ValuePlace) -> dict[str, str]:
    """Return the source's names of columns that a sink renamed (`a-b` to `a_b`), if only one column can be meant."""
    if not place.is_row:
        return {}
    renamed: dict[str, list[str]] = {}
    for column in place.schema.columns:
        renamed.setdefault(sanitized(column.name), []).append(column.name)
    taken = _names(kind)
    found = {name: columns[0] for name, columns in renamed.items() if len(columns) == 1}
    return {n: found[n] for n in taken if n in found and not place.schema.has(n) and found[n] not in taken}


def _map(kind: pa.MapType, place: ValuePlace) -> Writer:
    key = writer_of(kind.key_type, place.part(MapOf, name="key"))
    value = writer_of(kind.item_type, place.part(MapOf, name="value"))
    if is_text(kind.key_type) and not is_binary(kind.key_type):
        return lambda pairs: "{" + ",".join(f"{key(k)}:{value(v)}" for k, v in pairs) + "}"
    return lambda pairs: "[" + ",".join(f"[{key(k)},{value(v)}]" for k, v in pairs) + "]"


def _is_entry(kind: pa.DataType) -> bool:
    """Whether a type is a map's entry; sinks write maps as lists of entries into warehouses without maps."""
    return pa.types.is_struct(kind) and _names(kind) == {"key", "value"}


def _entries(kind: pa.StructType, place: ValuePlace) -> Writer:
    write = _map(pa.map_(kind.field("key").type, kind.field("value").type), place)
    return lambda entries: write([(entry["key"], entry["value"]) for entry in entries])


def _times(kind: pa.DataType, place: ValuePlace) -> Writer | None:
    types = pa.types
    if types.is_timestamp(kind):
        nanos, unit = _NANOS[kind.unit], _NANOS.get(place.clock)
        if unit is not None:
            return lambda value: str(value * nanos // unit)
        zone = "Z" if kind.tz else ""
        return lambda value: f'"{datetime_text(value * nanos // 1000)}{zone}"'
    if types.is_time64(kind):
        nanos = _NANOS[kind.unit]
        return lambda value: f'"{time_text(value * nanos)}"'
    return (lambda value: f'"{date_text(value)}"') if types.is_date32(kind) else None


def _scalar(kind: pa.DataType, place: ValuePlace) -> Writer | None:
    types = pa.types
    if types.is_null(kind):
        return str
    if types.is_boolean(kind):
        return json.dumps
    if types.is_integer(kind) or types.is_decimal(kind):
        return str
    if types.is_floating(kind):
        is_single = kind.bit_width < 64
        return lambda value: java_double(value, single=is_single) if math.isfinite(value) else f'"{json.dumps(value)}"'
    if is_binary(kind):
        return _bytes(place)
    return quote if is_text(kind) else None


def _bytes(place: ValuePlace) -> Writer:
    """Write bytes as hex in a blob, as base64 where Connect's numbers are bytes, else as the text that they hold."""
    if place.kind is None or contains(place.kind, Kind.DECIMAL) or contains(place.kind, Kind.VARINT):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if contains(place.kind, Kind.BLOB):
        return lambda value: f'"0x{value.hex()}"'
    return lambda value: quote(utf8("a value of bytes", value))


def embedded(what: str, value: str | bytes) -> str:
    """Return a text that is JSON, to embed in an event; raises `MalformedEventError` if it is not."""
    text = utf8(what, value)
    try:
        parse_json(text)
    except MalformedEventError as error:
        raise MalformedEventError(f"{what} is {error}") from error
    return text


def utf8(what: str, value: str | bytes) -> str:
    """Return a text, decoded from bytes; raises `MalformedEventError`."""
    if isinstance(value, str):
        return value
    if value[:1] == b"\x00":
        raise MalformedEventError(
            f"{what} starts with a byte 0, as a schema registry's Avro and Protobuf do; JSON was expected: let the sink "
            "deserialize it"
        )
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise MalformedEventError(f"{what} is not UTF-8: {error.reason} at byte {error.start}") from error
