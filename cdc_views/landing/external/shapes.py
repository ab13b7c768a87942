"""The columns of an external table that hold the event, and each row as the text that the raw format's adapter takes.

=========  =========================================================================================================
shape      columns
=========  =========================================================================================================
`line`     `value`, and if they exist `key`, `topic`, `partition`, `offset`, `timestamp`: a Kafka record.
           Key and value are texts or bytes of JSON, or structs. Other columns are ignored.
`event`    `op`, `source` and `after` or `before`: an event's members, as structs or as texts of JSON.
`row`      the source table's own columns, and metadata that starts with `__`: an unwrapped event of Debezium.
=========  =========================================================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from cdc_views.errors import MalformedEventError, UsageError
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.debezium.notices import split_metadata
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.landing.external.texts import ValuePlace, Writer, embedded, is_text, plain_type, utf8, writer_of
from cdc_views.model.naming import sanitized
from cdc_views.model.schema import TableSchema

_RECORD = ("key", "value", "topic", "partition", "offset", "timestamp")
_POSITIONS = ({"lsn"}, {"file", "pos", "row"})
_INTEGER = re.compile(r"0|-?[1-9]\d{0,999}", re.ASCII)
_SHOWN_COLUMNS = 12


class Shape(Enum):
    """The place of the event in a row; see the module."""

    LINE = "line"
    EVENT = "event"
    ROW = "row"


@dataclass(frozen=True, slots=True)
class EventText:
    """One event as JSON. If the row is no event, `reason` tells why, and `text` shows the row as far as possible."""

    text: str
    reason: str = ""

    @property
    def content(self) -> bytes:
        """The text as bytes; keeps lone surrogates, which JSON may hold."""
        return self.text.encode(errors="surrogatepass")


RowReader = Callable[[Mapping[str, Any]], EventText]  # turns a row, whose values are Python's of `plain_type`, into its event


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read an external table's rows: the raw format, the source table, the shape, and the sink's own columns to ignore."""

    format_name: str
    schema: TableSchema
    shape: Shape
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(cls, format_name: str, schema: TableSchema, *, columns: pa.Schema, partitions: frozenset[str], where: str) -> Reading:
        """Return how to read a table of these columns; raises `UsageError`, naming `where`, if the adapter cannot use them."""
        shape = _shape(format_name, schema, columns)
        if shape is None:
            raise UsageError(
                f"{where}: rows of columns {_listed(columns)} are no events of format {format_name}; expected "
                f"{_expected(format_name, schema)}; set `raw: {{format: …}}` to how the events were sent, or land them with "
                "`cdc-views land`"
            )
        reading = cls(format_name, schema, shape, frozenset(name for name in partitions if not schema.has(name)))
        reading.reader(columns, where=where)
        return reading

    def reader(self, columns: pa.Schema, *, where: str) -> RowReader:
        """Return the reader of rows of these columns; raises `UsageError` for a type that no event has."""
        try:
            write = _line(self, columns) if self.shape is Shape.LINE else writer_of(pa.struct(list(columns)), self._whole)
        except UsageError as error:
            expected = "texts, bytes, numbers, dates, timestamps, and structs, lists and maps of them were expected"
            raise UsageError(f"{where}: column {error}; {expected}") from error

        def read(row: Mapping[str, Any]) -> EventText:
            try:
                return EventText(write(row))
            except MalformedEventError as error:
                return EventText(json.dumps(row, default=_shown, ensure_ascii=False), str(error))

        return read

    @property
    def _whole(self) -> ValuePlace:
        """The place of a row that is the event itself."""
        is_event, is_row = self.shape is Shape.EVENT, self.shape is Shape.ROW
        return ValuePlace(self.schema, is_event=is_event, is_row=is_row, ignored=self.ignored)


def plain_columns(columns: pa.Schema) -> pa.Schema:
    """Return the schema to which rows are cast before a `RowReader` takes them."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in columns])


def _shape(format_name: str, schema: TableSchema, columns: pa.Schema) -> Shape | None:
    names = set(columns.names)
    if format_name == CassandraMutation.name:
        return Shape.LINE if "value" in names and is_text(columns.field("value").type) else None
    if format_name == KeyValue.name:
        return Shape.LINE if names >= {"key", "value", "offset"} else None
    if names >= {"op", "source"} and names & {"before", "after"}:
        return Shape.EVENT
    if "value" in names and not _is_row(schema, names):
        value = columns.field("value").type
        return Shape.LINE if is_text(value) or pa.types.is_struct(value) else None
    return Shape.ROW if format_name == Debezium.name and _is_row(schema, names) and _has_position(schema, names) else None


def _is_row(schema: TableSchema, names: set[str]) -> bool:
    """Whether the key's columns exist, and not only because a record has columns with these names."""
    keys = {column.name for column in schema.row_key}
    has_key = all(name in names or sanitized(name) in names for name in keys)
    return has_key and (not keys <= set(_RECORD) or any(name.startswith("__") for name in names))


def _has_position(schema: TableSchema, names: set[str]) -> bool:
    metadata = split_metadata(dict.fromkeys(names), schema)[1]
    return any(position <= metadata.keys() for position in _POSITIONS)


def _expected(format_name: str, schema: TableSchema) -> str:
    if format_name == CassandraMutation.name:
        return "a column `value`, the event's JSON as text"
    if format_name == KeyValue.name:
        return "columns `key`, `value` and `offset` (rows of a table have no order of their own)"
    line = "columns `key` and `value` (the event's JSON, or structs)"
    event = "columns `op`, `source` and `after` (the event's members)"
    if format_name != Debezium.name:
        return f"{event}, or {line}"
    keys = ", ".join(f"`{column.name}`" for column in schema.row_key)
    return f"{event}, or {line}, or the row's own columns ({keys}, …) with `__lsn`, or `__file`, `__pos` and `__row` (add.fields)"


def _listed(columns: pa.Schema) -> str:
    types = [str(kind).partition("<")[0] if pa.types.is_nested(kind) else str(kind) for kind in columns.types]
    shown = ", ".join(map("{} {}".format, columns.names[:_SHOWN_COLUMNS], types))
    return f"({shown}{', …' if len(columns) > _SHOWN_COLUMNS else ''})"


def _line(reading: Reading, columns: pa.Schema) -> Writer:
    """Return the writer of rows that are records: `{key, value, …}`, or only the value if there is no key to add."""
    writers = {name: _member(reading, columns.field(name), name) for name in _RECORD if name in columns.names}
    if reading.format_name == CassandraMutation.name or "key" not in writers:
        return lambda row: writers["value"](row["value"]) if "value" in writers else "null"

    def write(row: Mapping[str, Any]) -> str:
        members = [f'"{name}":{write(row[name])}' for name, write in writers.items()]
        return "{" + ",".join(members if "value" in writers else [*members, '"value":null']) + "}"

    return write


def _member(reading: Reading, field: pa.Field, name: str) -> Writer:
    if name == "value" and is_text(field.type):
        return lambda value: "null" if value is None else embedded("value", value)
    if name == "key" and is_text(field.type):
        return lambda key: "null" if key is None else _key(utf8("key", key))
    is_event = pa.types.is_struct(field.type) and {"op", "source"} <= {part.name for part in field.type}
    is_row = name in ("key", "value") and not is_event
    place = ValuePlace(reading.schema, is_event=is_event, is_row=is_row, clock="ms" if name == "timestamp" else "")
    try:
        return writer_of(field.type, place)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def _key(text: str) -> str:
    """Return a key's JSON. A text that is no object, array or quoted text is the plain value of the one key column.

    Only whole numbers stay numbers: their digits are the same as a number and as a text.
    """
    if text[:1] in ("{", "[", '"'):
        return embedded("key", text)
    return text if _INTEGER.fullmatch(text) else json.dumps(text)


def _shown(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
