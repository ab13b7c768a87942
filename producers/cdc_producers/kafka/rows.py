"""Events as records of a topic: a row under its key, or null if the row is deleted, so that log compaction works.

An event of any format is decoded and written as a whole row, in JSON that the raw format `key-value` reads back exactly:
numbers are exact, times are ISO text, bytes are hex after `0x`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from json.encoder import encode_basestring as quoted
from typing import Any, NamedTuple, Protocol

from cdc_producers.kafka.avro import real_text
from cdc_producers.kafka.messages import MUTATION
from cdc_views.errors import MalformedEventError, UnsupportedError
from cdc_views.formats.base import RawFormat, SourceLine, WriteOrder
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.codec.times import duration_text
from cdc_views.rules.facts import Fact, FactKind


class Record(NamedTuple):
    """One message; a value of None deletes its key."""

    key: bytes
    value: bytes | None


class Encoder(Protocol):
    """A writer of keys and rows of one table."""

    def key(self, values: Sequence[Any]) -> bytes:
        """Return a key from the native values of the row key, in its order."""

    def row(self, values: dict[str, Any]) -> bytes:
        """Return a row from native values by column; None is null, a missing column was not changed."""


Write = Callable[[SourceLine], list[Record]]
"""Returns the records of an event; raises `MalformedEventError` if no record can express it."""


def writer(raw_format: RawFormat, schema: TableSchema, encoder: Encoder) -> Write:
    """Return how a table's events become records; raises `UnsupportedError` for a raw format without whole rows."""
    if raw_format.name == MUTATION:
        return lambda event: [_mutation(event)]
    if raw_format.order is not WriteOrder.LOG_POSITION:
        raise UnsupportedError(
            f"{schema.full_name}: events of format {raw_format.name} are no whole rows",
            remedy="publish debezium, key-value or cassandra-mutation",
        )
    return lambda event: [_record(fact, schema, encoder) for fact in raw_format.decode(event, schema)]


def _mutation(event: SourceLine) -> Record:
    """Return a mutation unchanged under its partition key. It is a change, not a row, so its topic must not be compacted."""
    document = parse_json(event.text)
    if not isinstance(document, dict) or not isinstance(document.get("partition"), dict):
        raise MalformedEventError("a mutation has no partition key")
    key = json.dumps(document["partition"], default=str, sort_keys=True, ensure_ascii=False)
    return Record(key.encode(), event.text.encode())


def _record(fact: Fact, schema: TableSchema, encoder: Encoder) -> Record:
    if fact.kind is not FactKind.ROW:
        raise MalformedEventError(
            "a truncation names no keys, so no message can say it; delete the topic, or write a deletion for each row"
        )
    values = (*fact.partition, *fact.clustering)
    key = encoder.key(values)
    if fact.deletion is not None and fact.liveness is None:
        return Record(key, None)
    if fact.elements:
        raise MalformedEventError(f"{next(iter(fact.elements))!r} is a collection of cells, which no whole row can say")
    row = dict(zip((column.name for column in schema.row_key), values, strict=True))
    row.update({name: None if cell.deleted_at is not None else cell.value for name, cell in fact.cells.items()})
    return Record(key, encoder.row(row))


class JsonEncoder(Encoder):
    """Keys and rows as JSON objects."""

    def __init__(self, schema: TableSchema) -> None:
        self._key = schema.row_key
        self._columns = {column.name: column for column in schema.columns}

    def key(self, values: Sequence[Any]) -> bytes:
        return self._object(zip(self._key, values, strict=True))

    def row(self, values: dict[str, Any]) -> bytes:
        return self._object((self._columns[name], value) for name, value in values.items())

    @staticmethod
    def _object(pairs: Iterable[tuple[Column, Any]]) -> bytes:
        members = (f"{quoted(column.name)}:{_text(column.type, value)}" for column, value in pairs)
        return f"{{{','.join(members)}}}".encode()


def _text(kind: LogicalType, value: Any) -> str:
    """Return JSON as `key-value` reads it; unlike `SELECT JSON`, it keeps NaN and a JSON column's own text."""
    if value is None:
        return "null"
    match kind:
        case Scalar(kind=Kind.FLOAT | Kind.DOUBLE) if not math.isfinite(value):
            return real_text(value)
        case Scalar(kind=Kind.JSON):
            return quoted(value)
        case Scalar(kind=Kind.DURATION):
            return quoted(duration_text(value) or "0s")
        case Scalar(kind=Kind.INSTANT):
            return to_json(kind, value).replace("infinityZ", "infinity")
        case ListOf() | SetOf() | VectorOf():
            return f"[{','.join(_text(kind.element, item) for item in value)}]"
        case TupleOf():
            return f"[{','.join(_text(part, item) for part, item in zip(kind.fields, value, strict=True))}]"
        case MapOf():
            return f"[{','.join(f'[{_text(kind.key, key)},{_text(kind.value, item)}]' for key, item in value)}]"
        case Udt():
            pairs = zip(kind.fields, value, strict=True)
            return f"{{{','.join(f'{quoted(name)}:{_text(part, item)}' for (name, part), item in pairs)}}}"
    return to_json(kind, value)
