"""`debezium-cassandra`: events of Debezium's Cassandra connector.

The connector keeps one write time per row and no time to live. It sends neither static columns nor the operation on a collection
(docs: "What Debezium's Cassandra connector cannot carry"). `fidelity` lists the effect on each column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import Fidelity, RawFormat, SourceLine
from cdc_views.formats.connect.hints import Hints, Unit
from cdc_views.formats.connect.record import ConnectType, Record, integer, mapping, member, read_record, string
from cdc_views.formats.connect.redacting import redacted_record
from cdc_views.formats.connect.rows import (
    HintsOf,
    Stamp,
    deleted_row,
    element_cells,
    has_key,
    known_column,
    overwritten,
    read_columns,
    read_key,
)
from cdc_views.formats.debezium.notices import is_notice
from cdc_views.formats.debezium_cassandra.fidelity import cassandra_fidelity
from cdc_views.formats.debezium_cassandra.redacting import redacted_value
from cdc_views.formats.debezium_cassandra.shape import Image, read_bound, read_image
from cdc_views.formats.redaction import EventColumns
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind
from cdc_views.rules.cells import TTL_BITS, Cell, Deletion, Liveness
from cdc_views.rules.facts import Elements, Fact, FactKind, Origin

_MICROS = range(-(1 << 63), 1 << 63)
_EXPIRIES = range((1 << 32) * 1_000_000)
_SECONDS_IN_MILLIS = range((1 << 32) * 1000)
SNAPSHOT_SHIFT = 1 << 62  # µs (146,000 years) by which snapshot reads precede their read time: below every client's clock (S5)
_LONGEST_TTL = (1 << TTL_BITS) - 1
_FALSE = (None, False, "false", "")
UNITS = {Kind.TIME: Unit.NANOS, Kind.TIMESTAMP: Unit.MILLIS, Kind.DURATION: Unit.NANOS}


class DebeziumCassandra(RawFormat):
    """Debezium's Cassandra events: bare or in a line, as the connector wrote them or as BigQuery exports them.

    Write times are `source.ts_us`. Events carry no server time of a deletion; the connector's clock (`ts_ms`), which is never
    earlier, replaces it. They carry no time to live either: it is the expiry less the write time, limited to the legal range,
    and decides only ties of rule C2.5.
    """

    name = "debezium-cassandra"
    is_positioned = True

    def decode(self, event: SourceLine, schema: TableSchema) -> list[Fact]:
        """Return one fact, and a second one if the event has static columns (3.4 sends none); see `RawFormat.decode`."""
        record = read_record(event.text)
        if record.value is None:
            return []  # log compaction: the null record that follows a deletion
        value = mapping(record.value, what="the event")
        if is_notice(value):
            return []
        return _facts(_Event.of(record, schema), schema)

    def redact(self, document: Any, columns: EventColumns) -> Any:
        return redacted_record(document, columns, value=redacted_value)

    def fidelity(self, schema: TableSchema) -> list[Fidelity]:
        return cassandra_fidelity(schema)


@dataclass(frozen=True, slots=True)
class _Event:
    """The checked parts of an event; `stamp` is the whole row's."""

    op: str
    image: Image
    keys: list[Mapping[str, Any]]
    stamp: Stamp
    origin: Origin
    hints_of: HintsOf

    @classmethod
    def of(cls, record: Record, schema: TableSchema) -> _Event:
        source = mapping(member(record.value, "source", what="the event"), what="source")
        _check_table(source, schema)
        image = read_image(mapping(member(record.value, "after", what="the event"), what="after"), schema)
        keys: list[Mapping[str, Any]] = [{name: cell["value"] for name, cell in image.cells.items()}]
        if isinstance(record.key, dict):
            keys.append(record.key)
        op = string(member(record.value, "op", what="the event"), what="op")
        return cls(op, image, keys, _stamp(record.value, source), _origin(source), _hints_of(record.value_type))


def _check_table(source: Mapping[str, Any], schema: TableSchema) -> None:
    names = [string(member(source, part, what="source"), what=f"source.{part}") for part in ("keyspace", "table")]
    if ".".join(names) != schema.full_name:
        raise MalformedEventError(f"an event of table {'.'.join(names)}, where {schema.full_name} was expected")


def _stamp(value: Mapping[str, Any], source: Mapping[str, Any]) -> Stamp:
    written = integer(member(source, "ts_us", what="source"), what="source.ts_us", allowed=_MICROS)
    millis = integer(member(value, "ts_ms", what="the event"), what="ts_ms", allowed=_SECONDS_IN_MILLIS)
    is_snapshot = source.get("snapshot") not in _FALSE
    return Stamp(max(_MICROS.start, written - SNAPSHOT_SHIFT) if is_snapshot else written, millis // 1000)


def _origin(source: Mapping[str, Any]) -> Origin:
    # events have no node id: they name no replica
    position = integer(source.get("pos") or 0, what="source.pos", allowed=range(1 << 63))
    return Origin(str(source.get("cluster") or ""), str(source.get("file") or ""), position)


def _hints_of(declared: ConnectType | None) -> HintsOf:
    after = declared.field("after") if declared else None

    def hints_of(column: Column) -> Hints:
        cell = after.field(column.name) if after else None
        return Hints(declared=cell.field("value") if cell else None, default_units=UNITS)

    return hints_of


def _facts(event: _Event, schema: TableSchema) -> list[Fact]:
    if event.op == "d":
        return [_deleted(event, schema)]
    if event.op == "r" and (event.image.start is not None or event.image.end is not None):
        return [_range(event, schema)]
    if event.op in ("i", "u", "r"):  # other connectors' snapshot reads are `r`; this one's are `i`
        return _written(event, schema)
    raise MalformedEventError(f"op is {event.op!r} where i, u, d or r was expected")


def _partition(event: _Event, schema: TableSchema) -> tuple[Any, ...]:
    return read_columns(schema.partition, event.keys, hints_of=event.hints_of)


def _deleted(event: _Event, schema: TableSchema) -> Fact:
    """Return a row's deletion; a partition's for `d` without clustering values, or if the table has no clustering key."""
    if any(row.get(column.name) is not None for column in schema.clustering for row in event.keys):
        return deleted_row(read_key(schema, event.keys, hints_of=event.hints_of), stamp=event.stamp, origin=event.origin)
    return Fact(FactKind.PARTITION, _partition(event, schema), deletion=event.stamp.deletion, origin=event.origin)


def _range(event: _Event, schema: TableSchema) -> Fact:
    partition = _partition(event, schema)
    start, end = read_bound(event.image.start, schema, side="START"), read_bound(event.image.end, schema, side="END")
    return Fact(FactKind.RANGE, partition, deletion=event.stamp.deletion, start=start, end=end, origin=event.origin)


def _written(event: _Event, schema: TableSchema) -> list[Fact]:
    facts = []
    cells, elements = _side(event, schema, role=Role.STATIC)
    if cells or elements:
        partition = _partition(event, schema)
        facts.append(Fact(FactKind.STATIC, partition, cells=cells, elements=elements, origin=event.origin))
    if any(has_key(schema, row) for row in event.keys) or not cells:
        facts.append(_row(event, schema))
    return facts


def _row(event: _Event, schema: TableSchema) -> Fact:
    key = read_key(schema, event.keys, hints_of=event.hints_of)
    cells, elements = _side(event, schema, role=Role.REGULAR)
    every = [*cells.values(), *(cell for part in elements.values() for _, cell in part.cells)]
    liveness = None if event.op == "u" else _liveness(event, every)
    return Fact(FactKind.ROW, *key, liveness, cells=cells, elements=elements, origin=event.origin)


def _liveness(event: _Event, cells: Sequence[Cell]) -> Liveness:
    """Return the marker of an INSERT. Events do not carry its expiry, but an INSERT's live cells have the marker's.

    A cell without expiry therefore means a marker without; else the latest expiry is used. An INSERT with a TTL that sets
    only the key or nulls looks like one without a TTL.
    """
    live = [cell for cell in cells if not cell.is_tombstone]
    if not live or any(cell.expires_at is None for cell in live):
        return Liveness(event.stamp.written)
    latest = max(live, key=lambda cell: cell.expires_at or 0)
    return Liveness(event.stamp.written, latest.ttl, latest.expires_at)


def _side(event: _Event, schema: TableSchema, *, role: Role) -> tuple[dict[str, Cell], dict[str, Elements]]:
    cells: dict[str, Cell] = {}
    elements: dict[str, Elements] = {}
    for name, found in event.image.cells.items():
        column = known_column(schema, name)
        if column is None or column.role is not role:
            continue
        stamp = _cell_stamp(event.stamp, name, found)
        if column.type.is_multicell:
            elements[name] = _elements(event, column, found["value"], stamp=stamp)
        else:
            cells[name] = stamp.cell(name, column.type, found["value"], hints=event.hints_of(column))
    return cells, elements


def _cell_stamp(stamp: Stamp, name: str, found: Mapping[str, Any]) -> Stamp:
    """Return the row's stamp with the expiry of a written row's cell: its `deletion_ts`, in µs."""
    if found.get("deletion_ts") is None:
        return stamp
    micros = integer(found["deletion_ts"], what=f"deletion_ts of {name!r}", allowed=_EXPIRIES)
    left = -((stamp.written - micros) // 1_000_000)
    return Stamp(stamp.written, stamp.deleted_at, max(1, min(left, _LONGEST_TTL)), micros // 1_000_000)


def _elements(event: _Event, column: Column, value: Any, *, stamp: Stamp) -> Elements:
    """Return a collection's elements: INSERT (or a snapshot read) replaces it, UPDATE adds to it, `[]` empties it.

    An UPDATE that replaced it or removed an element looks like one that added (except a map's removed key: its value is null).
    """
    hints = event.hints_of(column)
    if value is None or value in ([], {}):
        return Elements(Deletion(stamp.written - _is_shared(event, column), stamp.deleted_at))
    if event.op != "u":
        return overwritten(column, value, stamp=stamp, hints=hints)
    return Elements(cells=element_cells(column, value, stamp=stamp, hints=hints))


def _is_shared(event: _Event, column: Column) -> int:
    """Return 1 if `ts_us` is the write time of a cell or the marker, 1 µs after the collection's deletion (rule D3).

    `ts_us` is the row's largest write time. It is the deletion's own if the UPDATE only emptied collections; then return 0.
    """
    others = (found for name, found in event.image.cells.items() if name not in event.image.keys and name != column.name)
    return int(event.op != "u" or any(other["value"] not in (None, [], {}) for other in others))
