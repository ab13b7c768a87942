"""`debezium`: before and after images of rows of PostgreSQL, MySQL and MariaDB (rules S1 to S6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import Fidelity, FormatOptions, RawFormat, SourceLine, WriteOrder
from cdc_views.formats.connect.hints import Binary, Decimals, Hints, Unit
from cdc_views.formats.connect.record import ConnectType, Record, integer, mapping, member, read_record, string
from cdc_views.formats.connect.redacting import redacted_record
from cdc_views.formats.connect.rows import HintsOf, RowKey, Stamp, deleted_row, has_key, key_object, read_key, written_row
from cdc_views.formats.debezium.fidelity import debezium_fidelity
from cdc_views.formats.debezium.form import EventPaths, locate_envelope, locate_row, locate_tombstone
from cdc_views.formats.debezium.notices import (
    check_row_table,
    check_source_table,
    check_topic,
    is_envelope,
    is_notice,
    split_metadata,
)
from cdc_views.formats.debezium.order import MYSQL, POSTGRES, arrival_order, arrival_origin, envelope_order, flat_order
from cdc_views.formats.debezium.redacting import redacted_value
from cdc_views.formats.forms import NoFormError, RowForm
from cdc_views.formats.redaction import EventColumns
from cdc_views.model.config_part import Name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind
from cdc_views.rules.facts import Fact, FactKind, Origin

_WRITES = frozenset({"c", "u", "r"})
_FALSE = (None, False, "false", "")
_MILLIS = range(1000 << 32)


class DebeziumOptions(FormatOptions):
    """What only the configuration of a Debezium connector says; not needed for events with schemas."""

    scales: dict[Name, Annotated[int, Field(strict=True)]] = Field(
        default_factory=dict, description="Column and its digits after the point, where the schema file has them not."
    )
    units: dict[Name, Unit] = Field(default_factory=dict, description="Column and what its numbers of time count.")
    binary: Binary | None = Field(default=None, description="How bytes are written: binary.handling.mode.")
    decimals: Decimals | None = Field(default=None, description="How decimals are written: decimal.handling.mode.")

    def columns(self) -> Mapping[str, Iterable[str]]:
        return {"scales": self.scales, "units": self.units}


class Debezium(RawFormat):
    """Debezium's events of relational tables, in envelopes or unwrapped (`ExtractNewRecordState`); each writes its whole row."""

    name = "debezium"
    options = DebeziumOptions
    is_positioned = True
    order = WriteOrder.LOG_POSITION
    has_forms = True
    writes_whole_rows = True

    def __init__(self, known: DebeziumOptions | None = None) -> None:
        self._known = known or DebeziumOptions()

    @classmethod
    def configured(cls, options: DebeziumOptions) -> Debezium:
        return cls(options)

    @property
    def known(self) -> DebeziumOptions:
        """What the project file says of the connector."""
        return self._known

    @property
    def scaled(self) -> frozenset[str]:
        return frozenset(self._known.scales)

    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """Return a row fact, two if an update moved the row to another key, or a truncation; see `RawFormat.decode`."""
        record = read_record(event.text)
        if record.value is None:
            return self._tombstone(record, event, schema)
        value = mapping(record.value, what="the event")
        if is_notice(value):
            return []
        if is_envelope(value):
            return self._envelope(record, schema)
        return self._flat(record, event, schema)

    def redact(self, document: Any, columns: EventColumns) -> Any:
        return redacted_record(document, columns, value=redacted_value)

    def row_form(self, contents: Sequence[bytes], schema: TableSchema) -> RowForm | None:
        text = contents[-1].decode()
        if len(self.decode(SourceLine(text), schema)) != 1:
            return None
        try:
            return self._paths(read_record(text), schema).form(contents)
        except NoFormError:
            return None

    def _paths(self, record: Record, schema: TableSchema) -> EventPaths:
        value = record.value
        if value is None:
            paths = EventPaths(record, schema, self._hints_of(record.key_type, connector=""), is_deletion=True)
            locate_tombstone(paths)
        elif is_envelope(value):
            source, is_deletion = value["source"], value["op"] == "d"
            declared = _image(record, "before") or record.key_type, _image(record, "after")
            before, after = (self._hints_of(found, connector=source["connector"]) for found in declared)
            paths = EventPaths(record, schema, before if is_deletion else after, is_deletion, _is_snapshot(value))
            paths.node = str(source.get("name") or "")
            locate_envelope(paths, before)
        else:
            metadata = split_metadata(value, schema)[1]
            hints_of = self._hints_of(record.value_type, connector=str(metadata.get("connector") or ""))
            paths = EventPaths(record, schema, hints_of, _is_deletion(metadata), is_snapshot=metadata.get("op") == "r")
            locate_row(paths)
        return paths

    def fidelity(self, schema: TableSchema) -> list[Fidelity]:
        return debezium_fidelity(schema)

    def happened(self, event: SourceLine) -> int | None:
        """Return the time of the database's commit; Debezium's clock also dates events that are read again."""
        value = read_record(event.text).value
        if not isinstance(value, dict):
            return None
        millis = value["source"].get("ts_ms") if is_envelope(value) else value.get("__source_ts_ms")
        return None if millis is None else integer(millis, what="ts_ms", allowed=_MILLIS) * 1000

    def _hints_of(self, declared: ConnectType | None, *, connector: str) -> HintsOf:
        # MySQL and MariaDB send TIME in µs in every mode but `connect`
        units = {Kind.TIME: Unit.MICROS} if connector in MYSQL else {}

        def hints_of(column: Column) -> Hints:
            return Hints(
                declared=declared.field(column.name) if declared else None,
                scale=self._known.scales.get(column.name),
                unit=self._known.units.get(column.name),
                binary=self._known.binary,
                decimals=self._known.decimals,
                default_units=units,
                wraps_unsigned=connector not in POSTGRES,
                numbers_show_scale=True,
            )

        return hints_of

    def _tombstone(self, record: Record, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """Return a deletion at its arrival, for the null record that follows a deletion for log compaction.

        It has no log position. It matters only among events without one: below all log positions, it deletes nothing.
        """
        check_topic(record.topic, schema)
        hints_of = self._hints_of(record.key_type, connector="")
        key = read_key(schema, [key_object(schema, record.key)], hints_of=hints_of)
        stamp = Stamp(arrival_order(record, event=event), record.seconds)
        return [deleted_row(key, stamp=stamp, origin=arrival_origin(record, event))]

    def _envelope(self, record: Record, schema: TableSchema) -> list[Fact]:
        value = record.value
        source = mapping(member(value, "source", what="the event"), what="source")
        check_source_table(source, schema)
        op = string(member(value, "op", what="the event"), what="op")
        written = envelope_order(source, transaction=value.get("transaction"), is_snapshot=_is_snapshot(value))
        stamp = Stamp(written, _seconds(source, value))
        origin = _log_origin(record, source, written)
        if op == "t":
            return [Fact(FactKind.TABLE, deletion=stamp.deletion, origin=origin)]
        if op == "d":
            return [deleted_row(self._old_key(record, schema), stamp=stamp, origin=origin)]
        if op not in _WRITES:
            raise MalformedEventError(f"op is {op!r} where c, u, r, d or t was expected")
        after = mapping(member(value, "after", what="the event"), what="after")
        hints_of = self._hints_of(_image(record, "after"), connector=str(source["connector"]))
        key = read_key(schema, [after, key_object(schema, record.key)], hints_of=hints_of)
        facts = [written_row(schema, key, after, stamp=stamp, hints_of=hints_of, origin=origin)]
        # an update can move a row to another key if this key is not Debezium's (`message.key.columns`, no primary key)
        if op == "u" and has_key(schema, value.get("before")) and (old := self._old_key(record, schema)) != key:
            facts.append(deleted_row(old, stamp=stamp, origin=origin))
        return facts

    def _old_key(self, record: Record, schema: TableSchema) -> RowKey:
        before = record.value.get("before")
        rows = [before] if has_key(schema, before) else []
        connector = str(record.value["source"]["connector"])
        hints_of = self._hints_of(_image(record, "before") or record.key_type, connector=connector)
        return read_key(schema, [*rows, key_object(schema, record.key)], hints_of=hints_of)

    def _flat(self, record: Record, event: SourceLine, schema: TableSchema) -> list[Fact]:
        row, metadata = split_metadata(record.value, schema)
        check_row_table(metadata, schema)
        stamp = Stamp(flat_order(metadata, record=record, event=event), _flat_seconds(metadata, record))
        hints_of = self._hints_of(record.value_type, connector=str(metadata.get("connector") or ""))
        origin = arrival_origin(record, event)
        key = read_key(schema, [row, key_object(schema, record.key)], hints_of=hints_of)
        if _is_deletion(metadata):
            return [deleted_row(key, stamp=stamp, origin=origin)]
        return [written_row(schema, key, row, stamp=stamp, hints_of=hints_of, origin=origin)]


def _is_deletion(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("deleted") not in _FALSE or metadata.get("op") == "d"


def _is_snapshot(value: Mapping[str, Any]) -> bool:
    return value.get("op") == "r" or value["source"].get("snapshot") not in _FALSE


def _image(record: Record, name: str) -> ConnectType | None:
    return record.value_type.field(name) if record.value_type else None


def _seconds(source: Mapping[str, Any], value: Mapping[str, Any]) -> int:
    """Return the server's clock at the commit, else Debezium's."""
    millis = source.get("ts_ms") or value.get("ts_ms")
    return 0 if millis is None else integer(millis, what="ts_ms", allowed=_MILLIS) // 1000


def _flat_seconds(metadata: Mapping[str, Any], record: Record) -> int:
    if metadata.get("ts_us") is not None:
        return integer(metadata["ts_us"], what="ts_us", allowed=range(_MILLIS.stop * 1000)) // 1_000_000
    return _seconds(metadata, {}) or record.seconds


def _log_origin(record: Record, source: Mapping[str, Any], written: int) -> Origin:
    if record.offset is not None:
        return arrival_origin(record, SourceLine(""))
    position = (written >> 32) % (1 << 63)
    return Origin(str(source.get("name") or ""), str(source.get("file") or ""), position)
