"""`debezium`: before and after images of rows of PostgreSQL, MySQL and MariaDB (rules S1 to S6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import Fidelity, RawFormat, SourceLine, WriteOrder
from cdc_views.formats.connect.hints import Binary, Decimals, Hints, Unit
from cdc_views.formats.connect.record import ConnectType, Record, integer, mapping, member, read_record, string
from cdc_views.formats.connect.rows import HintsOf, RowKey, Stamp, has_key, key_object, read_key, read_row
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
from cdc_views.formats.debezium.options import DebeziumOptions
from cdc_views.formats.debezium.order import MYSQL, POSTGRES, arrival_order, envelope_order, flat_order
from cdc_views.formats.forms import NoFormError
from cdc_views.formats.row_form import RowForm
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind
from cdc_views.rules.cells import Deletion, Liveness
from cdc_views.rules.facts import Fact, FactKind, Origin

_WRITES = frozenset({"c", "u", "r"})
_FALSE = (None, False, "false", "")
_MILLIS = range(1000 << 32)


class Debezium(RawFormat):
    """Debezium's events of relational tables, in envelopes or unwrapped (`ExtractNewRecordState`).

    An event is self-contained: its row is written whole, at its place in the source's log. The arguments say what
    only the connector's configuration knows; they matter for events without `{schema, payload}` envelopes.

    Args:
        scales: of `decimal.handling.mode=precise` columns, the digits after the point.
        units: of date-time and time columns, what their numbers count.
        binary: the connector's `binary.handling.mode`.
        decimals: its `decimal.handling.mode`.
    """

    name = "debezium"
    options = DebeziumOptions
    is_positioned = True
    order = WriteOrder.LOG_POSITION
    has_forms = True

    def __init__(
        self,
        *,
        scales: Mapping[str, int] | None = None,
        units: Mapping[str, Unit] | None = None,
        binary: Binary | None = None,
        decimals: Decimals | None = None,
    ) -> None:
        """Keep what is known of the connector's configuration."""
        self._scales, self._units = dict(scales or {}), dict(units or {})
        self._binary, self._decimals = binary, decimals

    @classmethod
    def configured(cls, options: DebeziumOptions) -> Debezium:
        units = {column: Unit[unit.name] for column, unit in options.units.items()}
        return cls(scales=options.scales, units=units, binary=options.binary, decimals=options.decimals)

    @property
    def scaled(self) -> frozenset[str]:
        return frozenset(self._scales)

    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """See `RawFormat.decode`; a row fact, two where an update moved the row to another key, or a truncation."""
        record = read_record(event.text)
        if record.value is None:
            return self._tombstone(record, event, schema)
        value = mapping(record.value, what="the event")
        if is_notice(value):
            return []
        if is_envelope(value):
            return self._envelope(record, schema)
        return self._flat(record, event, schema)

    def row_form(self, contents: Sequence[bytes], schema: TableSchema) -> RowForm | None:
        """See `RawFormat.row_form`; of events that write or delete one row."""
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
        """See `RawFormat.happened`; the database's commit, not Debezium's clock, which also dates what is read again."""
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
                scale=self._scales.get(column.name),
                unit=self._units.get(column.name),
                binary=self._binary,
                decimals=self._decimals,
                default_units=units,
                wraps_unsigned=connector not in POSTGRES,
                numbers_show_scale=True,
            )

        return hints_of

    def _tombstone(self, record: Record, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """A deletion at its arrival.

        Log compaction's copy of a deletion that came before it: it has no log position. It decides only where
        events have none either; below any position of a log, it removes nothing.
        """
        check_topic(record.topic, schema)
        hints_of = self._hints_of(record.key_type, connector="")
        key = read_key(schema, [key_object(schema, record.key)], hints_of=hints_of)
        stamp = Stamp(arrival_order(record, event=event), record.seconds)
        return [_deleted(key, stamp=stamp, origin=_arrival(record, event))]

    def _envelope(self, record: Record, schema: TableSchema) -> list[Fact]:
        value = record.value
        source = mapping(member(value, "source", what="the event"), what="source")
        check_source_table(source, schema)
        op = string(member(value, "op", what="the event"), what="op")
        written = envelope_order(source, transaction=value.get("transaction"), is_snapshot=_is_snapshot(value))
        stamp = Stamp(written, _seconds(source, value))
        origin = _log_origin(record, source, written)
        if op == "t":
            return [Fact(FactKind.TABLE, deletion=Deletion(stamp.written, stamp.deleted_at), origin=origin)]
        if op == "d":
            return [_deleted(self._old_key(record, schema, source), stamp=stamp, origin=origin)]
        if op not in _WRITES:
            raise MalformedEventError(f"op is {op!r} where c, u, r, d or t was expected")
        facts = [self._write(record, schema, source=source, stamp=stamp, origin=origin)]
        return facts + self._moved(record, schema, source=source, fact=facts[0])

    def _write(self, record: Record, schema: TableSchema, *, source: Mapping[str, Any], stamp: Stamp, origin: Origin) -> Fact:
        after = mapping(member(record.value, "after", what="the event"), what="after")
        hints_of = self._hints_of(_image(record, "after"), connector=str(source["connector"]))
        return _written(schema, [after, key_object(schema, record.key)], stamp=stamp, hints_of=hints_of, origin=origin)

    def _old_key(self, record: Record, schema: TableSchema, source: Mapping[str, Any]) -> RowKey:
        before = record.value.get("before")
        rows = [before] if has_key(schema, before) else []
        hints_of = self._hints_of(_image(record, "before") or record.key_type, connector=str(source["connector"]))
        return read_key(schema, [*rows, key_object(schema, record.key)], hints_of=hints_of)

    def _moved(self, record: Record, schema: TableSchema, *, source: Mapping[str, Any], fact: Fact) -> list[Fact]:
        """The deletion of the row an update moved to another key, where the connector tells it as one update.

        It does so where the table's key here is not the key Debezium knows (`message.key.columns`, no primary key).
        """
        if record.value.get("op") != "u" or not has_key(schema, record.value.get("before")):
            return []
        key = self._old_key(record, schema, source)
        if key == (fact.partition, fact.clustering) or fact.liveness is None:
            return []
        stamp = Stamp(fact.liveness.written, _seconds(source, record.value))
        return [_deleted(key, stamp=stamp, origin=fact.origin)]

    def _flat(self, record: Record, event: SourceLine, schema: TableSchema) -> list[Fact]:
        row, metadata = split_metadata(record.value, schema)
        check_row_table(metadata, schema)
        stamp = Stamp(flat_order(metadata, record=record, event=event), _flat_seconds(metadata, record))
        hints_of = self._hints_of(record.value_type, connector=str(metadata.get("connector") or ""))
        origin = _arrival(record, event)
        rows = [row, key_object(schema, record.key)]
        if _is_deletion(metadata):
            return [_deleted(read_key(schema, rows, hints_of=hints_of), stamp=stamp, origin=origin)]
        return [_written(schema, rows, stamp=stamp, hints_of=hints_of, origin=origin)]


def _is_deletion(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("deleted") not in _FALSE or metadata.get("op") == "d"


def _is_snapshot(value: Mapping[str, Any]) -> bool:
    return value.get("op") == "r" or value["source"].get("snapshot") not in _FALSE


def _image(record: Record, name: str) -> ConnectType | None:
    return record.value_type.field(name) if record.value_type else None


def _written(schema: TableSchema, rows: list[dict[str, Any]], *, stamp: Stamp, hints_of: HintsOf, origin: Origin) -> Fact:
    """The fact of a row written whole: `rows` are its image and, for a key the image lacks, the record's key."""
    partition, clustering = read_key(schema, rows, hints_of=hints_of)
    cells, elements = read_row(schema, rows[0], stamp=stamp, hints_of=hints_of)
    liveness = Liveness(stamp.written)
    return Fact(FactKind.ROW, partition, clustering, liveness, cells=cells, elements=elements, origin=origin)


def _deleted(key: RowKey, *, stamp: Stamp, origin: Origin) -> Fact:
    partition, clustering = key
    deletion = Deletion(stamp.written, stamp.deleted_at)
    return Fact(FactKind.ROW, partition, clustering, deletion=deletion, origin=origin)


def _seconds(source: Mapping[str, Any], value: Mapping[str, Any]) -> int:
    """The server's clock at the commit, else Debezium's."""
    millis = source.get("ts_ms") or value.get("ts_ms")
    return 0 if millis is None else integer(millis, what="ts_ms", allowed=_MILLIS) // 1000


def _flat_seconds(metadata: Mapping[str, Any], record: Record) -> int:
    if metadata.get("ts_us") is not None:
        return integer(metadata["ts_us"], what="ts_us", allowed=range(_MILLIS.stop * 1000)) // 1_000_000
    return _seconds(metadata, {}) or record.seconds


def _log_origin(record: Record, source: Mapping[str, Any], written: int) -> Origin:
    if record.offset is not None:
        return _arrival(record, SourceLine(""))
    position = (written >> 32) % (1 << 63)
    return Origin(str(source.get("name") or ""), str(source.get("file") or ""), position)


def _arrival(record: Record, event: SourceLine) -> Origin:
    position = event.line if record.offset is None else record.offset
    partition = record.members.get("partition")
    segment = record.topic if partition is None else f"{record.topic}/{partition}"
    return Origin(segment=segment, position=position)
