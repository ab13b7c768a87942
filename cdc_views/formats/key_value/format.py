"""`key-value`: a topic whose key names a row and whose value is the whole row, or null for no row (rule S1)."""

from __future__ import annotations

from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import Fidelity, RawFormat, SourceLine, Verdict, WriteOrder
from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.connect.record import ConnectType, Record, mapping, read_line
from cdc_views.formats.connect.rows import HintsOf, Stamp, key_object, read_key, read_row
from cdc_views.formats.debezium.order import arrival_order
from cdc_views.formats.key_value.unions import plain_row
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.cells import Deletion, Liveness
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.facts import Fact, FactKind, Origin


class KeyValue(RawFormat):
    """Keys and whole rows, ordered by Kafka offset, or by line where there is none (rule S2).

    Values may be Connect's (with or without an envelope), Debezium's encodings, or Avro's JSON, whose unions
    (`{"int": 5}`, as Bottled Water writes them) are opened.
    """

    name = "key-value"
    order = WriteOrder.LOG_POSITION

    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """See `RawFormat.decode`; one row fact."""
        document = mapping(parse_json(event.text), what="the event")
        for name in ("key", "value"):
            if name not in document:
                raise MalformedEventError(f"the event has no {name!r}; a line is {{key, value, topic?, partition?, offset?}}")
        record = read_line(document)
        key = key_object(schema, plain_row(schema, record.key))
        stamp = Stamp(arrival_order(record, event=event), record.seconds)
        origin = _origin(record, event)
        if record.value is None:
            partition, clustering = read_key(schema, [key], hints_of=_hints_of(record.key_type))
            return [Fact(FactKind.ROW, partition, clustering, deletion=Deletion(stamp.written, stamp.deleted_at), origin=origin)]
        row = mapping(plain_row(schema, record.value), what="value")
        return [_row(record, schema, key=key, row=row, stamp=stamp, origin=origin)]

    def fidelity(self, schema: TableSchema) -> list[Fidelity]:
        return [*_ROWS, *(_of_column(column) for column in schema.columns)]


def _row(record: Record, schema: TableSchema, *, key: dict[str, Any], row: dict[str, Any], stamp: Stamp, origin: Origin) -> Fact:
    # the key's own schema describes it; where the key lacks a column, the row may have it
    hints_of = _hints_of(record.value_type)
    partition, clustering = read_key(schema, [key, row], hints_of=_hints_of(record.key_type or record.value_type))
    cells, elements = read_row(schema, row, stamp=stamp, hints_of=hints_of)
    return Fact(FactKind.ROW, partition, clustering, Liveness(stamp.written), cells=cells, elements=elements, origin=origin)


def _hints_of(declared: ConnectType | None) -> HintsOf:
    return lambda column: Hints(declared=declared.field(column.name) if declared else None)


def _origin(record: Record, event: SourceLine) -> Origin:
    partition = record.members.get("partition")
    segment = record.topic if partition is None else f"{record.topic}/{partition}"
    return Origin(segment=segment, position=event.line if record.offset is None else record.offset)


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
