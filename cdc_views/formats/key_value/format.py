"""`key-value`: a topic whose key names a row; the value is the whole row, or null if there is no row (rule S1).

Bottled Water sends PostgreSQL rows in Avro's JSON encoding of unions (`{"int": 5}`) and bytes; both are unwrapped.
"""

from __future__ import annotations

from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import Fidelity, RawFormat, SourceLine, Verdict, WriteOrder
from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.connect.record import ConnectType, mapping, read_line
from cdc_views.formats.connect.redacting import image, redacted_key, redacted_line
from cdc_views.formats.connect.rows import HintsOf, Stamp, deleted_row, key_object, read_key, written_row
from cdc_views.formats.debezium.order import arrival_order, arrival_origin
from cdc_views.formats.redaction import EventColumns, UnlocatedError
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar, SetOf, VectorOf
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.facts import Fact


class KeyValue(RawFormat):
    """Keys and whole rows, ordered by Kafka offset, else by line (S2). Values have Connect's, Debezium's or Avro's encodings."""

    name = "key-value"
    order = WriteOrder.LOG_POSITION
    writes_whole_rows = True

    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        document = mapping(parse_json(event.text), what="the event")
        for name in ("key", "value"):
            if name not in document:
                raise MalformedEventError(f"the event has no {name!r}; a line is {{key, value, topic?, partition?, offset?}}")
        record = read_line(document)
        given = key_object(schema, _plain_row(schema, record.key))
        stamp = Stamp(arrival_order(record, event=event), record.seconds)
        origin = arrival_origin(record, event)
        if record.value is None:
            return [deleted_row(read_key(schema, [given], hints_of=_hints_of(record.key_type)), stamp=stamp, origin=origin)]
        row = mapping(_plain_row(schema, record.value), what="value")
        # the key's own schema describes it; the row may have a column that the key lacks
        key = read_key(schema, [given, row], hints_of=_hints_of(record.key_type or record.value_type))
        return [written_row(schema, key, row, stamp=stamp, hints_of=_hints_of(record.value_type), origin=origin)]

    def redact(self, document: Any, columns: EventColumns) -> Any:
        if not isinstance(document, dict) or not {"key", "value"} <= document.keys():
            raise UnlocatedError("the event has no key, or no value")
        return redacted_line(
            document,
            columns,
            value=lambda value, columns: image(_without_unions(value, columns), columns, takes_extra=True),
            key=lambda key, columns: redacted_key(_without_unions(key, columns), columns),
        )

    def fidelity(self, schema: TableSchema) -> list[Fidelity]:
        return [*_ROWS, *(_of_column(column) for column in schema.columns)]


def _without_unions(document: Any, columns: EventColumns) -> Any:
    """Return a key or row without the unions around it and around columns with a policy."""
    opened = _open(document) if not _has_column(columns.schema, document) else document
    if not isinstance(opened, dict):
        return opened
    policed = columns.redaction.policies.columns
    return {name: _column(columns.schema, name, value) if name in policed else value for name, value in opened.items()}


def _hints_of(declared: ConnectType | None) -> HintsOf:
    return lambda column: Hints(declared=declared.field(column.name) if declared else None)


_BRANCHES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map", "fixed", "enum"})


def _plain_row(schema: TableSchema, document: Any) -> Any:
    """Return a key or row without the unions around it and around its columns; leave anything else unchanged.

    A single member is a union's branch if its name is an Avro type or a dotted record name, unless the column's own
    type is an object that could have such a member.
    """
    opened = _open(document) if not _has_column(schema, document) else document
    if not isinstance(opened, dict):
        return opened
    return {name: _column(schema, name, value) for name, value in opened.items()}


def _has_column(schema: TableSchema, document: Any) -> bool:
    return isinstance(document, dict) and any(schema.has(name) for name in document)


def _column(schema: TableSchema, name: str, value: Any) -> Any:
    if not schema.has(name) or not _could_be_union(schema.column(name).type, value):
        return value
    if isinstance(value, dict) and set(value) in ({"bytes"}, {"fixed"}):
        return _bytes(next(iter(value.values())))
    opened = _open(value)
    if isinstance(opened, dict):
        return _record_text(opened)
    return [_open(item) for item in opened] if isinstance(opened, list) else opened


def _could_be_union(kind: LogicalType, value: Any) -> bool:
    if kind == Scalar(Kind.JSON):
        return isinstance(value, dict) and value.keys() == {"string"} and _is_json(value["string"])
    return isinstance(kind, Scalar | ListOf | SetOf | VectorOf)


def _is_json(text: Any) -> bool:
    # a JSON column may itself hold {"string": "x"}; if that text is JSON, the object is a union
    if not isinstance(text, str):
        return False
    try:
        parse_json(text)
    except MalformedEventError:
        return False
    return True


def _open(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _BRANCHES or "." in name:
            return inner
    return value


def _bytes(text: Any) -> str:
    """Return the hex of bytes that Avro wrote as characters with the same codes."""
    try:
        return f"0x{text.encode('latin-1').hex()}"
    except (AttributeError, UnicodeEncodeError) as error:
        raise MalformedEventError(f"{str(text)[:40]!r} is not Avro's text of bytes") from error


_DATE = ("year", "month", "day")
_TIME = ("hour", "minute", "second")


def _record_text(record: dict[str, Any]) -> Any:
    """Return the ISO text of Bottled Water's records of dates and times (year, month, day, hour, minute, second, micro)."""
    has_date, has_time = (all(isinstance(record.get(part), int) for part in parts) for parts in (_DATE, _TIME))
    day = "{:04d}-{:02d}-{:02d}".format(*(record[part] for part in _DATE)) if has_date else ""
    clock = "{:02d}:{:02d}:{:02d}".format(*(record[part] for part in _TIME)) if has_time else ""
    micro = record.get("micro")
    if clock and isinstance(micro, int):
        clock += f".{micro:06d}"
    return " ".join(part for part in (day, clock) if part) or record


_ROWS = (
    Fidelity(
        "*",
        Verdict.EXACT_IF,
        "every write of a key went to one partition of one topic, and the topic's order is the source's; without offsets "
        "the order is the line, which orders one file only",
        "S2",
    ),
    Fidelity(
        "*", Verdict.EXACT_IF, "values are whole rows: a column that a value leaves out keeps its older value (rule C5)", "S1"
    ),
)
_NUMBERED = {Kind.TIME, Kind.DATETIME, Kind.INSTANT, Kind.TIMESTAMP, Kind.DURATION}
_AMBIGUOUS = {Kind.DECIMAL, Kind.BLOB}


def _of_column(column: Column) -> Fidelity:
    kind = column.type.kind if isinstance(column.type, Scalar) else None
    if kind in _NUMBERED:
        reason = "it is a text, or a schema beside the value declares the unit of its numbers; else magnitude decides"
        return Fidelity(column.name, Verdict.EXACT_IF, reason, "S1")
    if kind in _AMBIGUOUS:
        reason = "a schema beside the value declares its encoding, or it is a number (decimal) or hex with 0x (bytes)"
        return Fidelity(column.name, Verdict.EXACT_IF, reason, "S1")
    if column.type.is_multicell:
        reason = "values are whole rows: each replaces the whole collection"
        return Fidelity(column.name, Verdict.EXACT_IF, reason, "S1, D3")
    return Fidelity(column.name, Verdict.EXACT, "the value as it was sent", "S1")
