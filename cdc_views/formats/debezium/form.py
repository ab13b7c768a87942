"""The form of Debezium's events: the places of the row's columns, its write time and its origin.

All else that decides an event's meaning is constant within a form and is read from a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_views.formats.connect.record import Record
from cdc_views.formats.connect.rows import HintsOf, has_key, key_object
from cdc_views.formats.debezium.notices import is_told_by_values, split_metadata
from cdc_views.formats.debezium.order import ORDER, POSTGRES
from cdc_views.formats.forms import (
    ColumnSlot,
    JsonPath,
    LogPosition,
    Look,
    NoFormError,
    OriginForm,
    RowForm,
    Slot,
    Unread,
    Value,
    learned,
    look_of,
)
from cdc_views.model.schema import Column, TableSchema

_NUMBERS = {  # the numbers that order and date an event, by Debezium's names; a `TOKEN` keeps 0 and -0 apart: only 0 is valid
    "file": Value(Look.TEXT),
    "lsn": Value(Look.INTEGER, allowed=range(1, 1 << 64)),
    "pos": Value(Look.INTEGER, allowed=range(1, 1 << 40)),
    "row": Value(Look.INTEGER, allowed=range((1 << 32) - 1)),
    "total_order": Value(Look.INTEGER, allowed=range(1, (1 << 32) - 1)),  # smaller numbers count as 1, see `order`
    "ts_ms": Value(Look.INTEGER, allowed=range(1000, 1000 << 32)),  # 0 counts as no clock
    "ts_us": Value(Look.INTEGER, allowed=range(1, 1_000_000 << 32)),
    "offset": Value(Look.TOKEN, allowed=range(1 << 63)),
    "partition": Value(Look.TOKEN, allowed=range(1 << 63)),
    "timestamp": Value(Look.INTEGER, allowed=range(1, 1000 << 32)),
}
_SAME_OF_SOURCE = ("connector", "name", "db", "schema", "table", "snapshot")
_SAME_OF_ROW = ("op", "deleted", "table", "schema", "db", "connector")
_STREAMED = 1  # the ordinal of a PostgreSQL event that does not show its place in its transaction


@dataclass
class EventPaths:
    """The JSON paths that matter in events like `record`, which was decoded without error.

    Attributes:
        is_snapshot: Whether `record` was read from the table, not from the log.
        node: The server's name; None if only the topic names the origin.
        reads: What each path holds.
        columns: The path of each column of the row.
        before: The paths of the row's former key, which must equal the new key; empty if events have no former key.
        numbers: The paths of the numbers that order and date the event, by Debezium's names.
    """

    record: Record
    schema: TableSchema
    hints_of: HintsOf
    is_deletion: bool = False
    is_snapshot: bool = False
    node: str | None = None
    reads: dict[JsonPath, Column | Value | Unread] = field(default_factory=dict)
    columns: dict[str, JsonPath] = field(default_factory=dict)
    before: dict[str, JsonPath] = field(default_factory=dict)
    numbers: dict[str, JsonPath] = field(default_factory=dict)

    def __post_init__(self) -> None:
        record = self.record
        names = record.value.keys() if isinstance(record.value, dict) else set()
        if "_problem" in record.members or {"key", "value"} <= names or names == {"schema", "payload"}:
            raise NoFormError  # values decide the kind of such a line
        self.same((), "topic", "destination", "epoch", *(["schema"] if self.base == ("payload",) else []))
        for part in ("key", "value"):
            if isinstance(record.members.get(part), dict) and record.members[part].keys() == {"schema", "payload"}:
                self.same((part,), "schema")
        self.read_numbers((), {name: record.members.get(name) for name in ("offset", "partition")})

    @property
    def base(self) -> JsonPath:
        """The path of the event's value."""
        return ("value",) * bool(self.record.members) + ("payload",) * (self.record.value_type is not None)

    def same(self, path: JsonPath, *names: str) -> None:
        """Require members of an object to be constant within the form."""
        self.reads |= dict.fromkeys([(*path, name) for name in names], Unread.SAME)

    def read_row(self, row: Any, path: JsonPath) -> None:
        """Read a row's columns; raises `NoFormError` if a key column is missing: it may be elsewhere."""
        if not has_key(self.schema, row):
            raise NoFormError
        for column in self.schema.columns:
            if column.name in row and (column.is_key or not self.is_deletion):
                self.columns[column.name] = (*path, column.name)
                self.reads[(*path, column.name)] = column

    def read_numbers(self, path: JsonPath, members: Mapping[str, Any], names: Mapping[str, str] | None = None) -> None:
        """Read the members of an object that order and date an event; `names` maps Debezium's names to the members' names."""
        for name, value in members.items():
            place = (*path, (names or {}).get(name, name))
            if name not in _NUMBERS:
                continue
            if value is None:
                self.reads[place] = Unread.SAME
            else:
                self.numbers[name] = place
                self.reads[place] = _NUMBERS[name]

    def form(self, contents: Sequence[bytes]) -> RowForm:
        """Return the form of events of one `shape`, the last of which is `record`. Raises `NoFormError`."""
        form, slots = learned(contents, self._read)
        keys = [column.name for column in self.schema.row_key]
        numbers = {name: slots[path] for name, path in self.numbers.items()}
        clock = next((name for name in ("ts_us", "ts_ms", "timestamp") if name in numbers), None)
        return RowForm(
            form,
            keys=tuple(self._column(name, slots) for name in keys),
            cells=tuple(self._column(name, slots) for name in self.columns if name not in keys),
            is_deletion=self.is_deletion,
            written=self._written(numbers),
            clock=numbers.get(clock or ""),
            second=1_000_000 if clock == "ts_us" else 1000,
            origin=self._origin(numbers),
            equal=tuple((slots[path], slots[self.columns[name]]) for name, path in self.before.items()),
        )

    def _read(self, path: JsonPath, seen: Sequence[Any]) -> Value | Unread | None:
        found = self.reads.get(path)
        if not isinstance(found, Column):
            return found
        look = look_of(found.type, seen)
        is_key_alone = self.record.value is None and not isinstance(self.record.key, dict)
        if found.type.is_multicell or (is_key_alone and look is Look.TOKEN):
            raise NoFormError  # a token may be an object that has the key as a member
        return Value(look, takes_null=not found.is_key)

    def _column(self, name: str, slots: Mapping[JsonPath, Slot]) -> ColumnSlot:
        column = self.schema.column(name)
        return ColumnSlot(column, slots[self.columns[name]], self.hints_of(column))

    def _written(self, slots: Mapping[str, Slot]) -> LogPosition:
        if "position" in slots:
            return LogPosition(slots["position"], slots["ordinal"], epoch=slots["epoch"])
        if "lsn" in slots:
            return LogPosition(slots["lsn"], 0 if self.is_snapshot else slots.get("total_order", _STREAMED))
        if "file" in slots and "pos" in slots:
            if self.is_snapshot:
                return LogPosition(slots["pos"], 0, file=slots["file"])
            return LogPosition(slots["pos"], slots.get("row", 0), file=slots["file"], add=1)
        if "offset" in slots:
            return LogPosition(slots["offset"], 0, epoch=self.record.epoch)
        raise NoFormError

    def _origin(self, slots: Mapping[str, Slot]) -> OriginForm:
        if self.node is not None and "offset" not in slots:
            return OriginForm(self.node, slots.get("file", ""))
        topic = self.record.topic
        return OriginForm("", slots.get("partition", topic), topic, slots.get("offset"), counts_lines="offset" not in slots)


def locate_envelope(paths: EventPaths, before: HintsOf) -> None:
    """Find the paths of an event with images of the row; `before` are the hints for the older image."""
    value, base = paths.record.value, paths.base
    if value["op"] not in ("c", "u", "r", "d") or is_told_by_values(value):
        raise NoFormError
    image, other = ("before", "after") if paths.is_deletion else ("after", "before")
    paths.same(base, "op", "transaction", other)
    paths.read_row(value.get(image), (*base, image))
    if isinstance(value.get(other), dict):
        del paths.reads[(*base, other)]
        if value["op"] == "u":
            _compare_keys(paths, value["before"], before)
    elif value["op"] in ("c", "u"):
        paths.reads[(*base, "op")] = Unread.WRITE  # whether the row is new makes no difference
    _locate_source(paths, value["source"], (*base, "source"))
    if value["source"].get("ts_ms") is None:
        paths.read_numbers(base, {"ts_ms": value.get("ts_ms")})
    if isinstance(value.get("transaction"), dict):
        del paths.reads[(*base, "transaction")]
        paths.read_numbers((*base, "transaction"), {"total_order": value["transaction"].get("total_order")})


def _locate_source(paths: EventPaths, source: Mapping[str, Any], path: JsonPath) -> None:
    paths.same(path, "order", *_SAME_OF_SOURCE)
    position = ("lsn",) if source["connector"] in POSTGRES else ("pos", "row")
    paths.read_numbers(path, {name: source.get(name) for name in ("file", "ts_ms", *position)})
    if source.get("order") is not None:
        paths.reads[(*path, "order")] = Unread.INSIDE
        for index, (name, allowed) in enumerate(ORDER.items()):
            paths.numbers[name] = (*path, "order", index)
            paths.reads[paths.numbers[name]] = Value(Look.TOKEN, allowed=allowed)


def _compare_keys(paths: EventPaths, row: Mapping[str, Any], hints_of: HintsOf) -> None:
    """Read the row's former key. If it differs, the event is about two rows."""
    path, columns = (*paths.base, "before"), paths.schema.row_key
    if not has_key(paths.schema, row):
        paths.same(path, *(column.name for column in columns))
        return
    if any(hints_of(column) != paths.hints_of(column) for column in columns):
        raise NoFormError
    paths.before = {column.name: (*path, column.name) for column in columns}
    paths.reads |= {(*path, column.name): column for column in columns}


def locate_row(paths: EventPaths) -> None:
    """Find the paths of an unwrapped row, whose ordering metadata is among its columns."""
    value, schema, base = paths.record.value, paths.schema, paths.base
    row, metadata = split_metadata(value, schema)
    own = {name: split_metadata({name: None}, schema)[1] for name in value}
    names = {next(iter(found)): name for name, found in own.items() if found}
    if is_told_by_values(value) or len(names) < sum(map(len, own.values())):
        raise NoFormError  # a name occurs twice
    paths.same(base, *(names[name] for name in _SAME_OF_ROW if name in names))
    if metadata.get("op") in ("c", "u"):
        paths.reads[(*base, names["op"])] = Unread.WRITE
    paths.read_numbers(base, metadata, names)
    paths.read_numbers((), {"timestamp": paths.record.members.get("timestamp")})
    paths.read_row(row, base)


def locate_tombstone(paths: EventPaths) -> None:
    """Find the paths of a tombstone, which has a key and nothing else."""
    key, schema = paths.record.key, paths.schema
    path: JsonPath = ("key",) if paths.record.key_type is None else ("key", "payload")
    paths.same((), "value")
    paths.read_numbers((), {"timestamp": paths.record.members.get("timestamp")})
    if isinstance(key, dict):
        paths.read_row(key, path)
    elif isinstance(key, list) or not key_object(schema, key):
        raise NoFormError
    else:
        paths.columns[schema.row_key[0].name] = path
        paths.reads[path] = schema.row_key[0]
