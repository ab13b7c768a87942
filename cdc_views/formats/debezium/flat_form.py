"""Debezium's unwrapped events and tombstones of one form, as `debezium_form` has envelopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_views.formats.connect.record import Record
from cdc_views.formats.connect.rows import HintsOf
from cdc_views.formats.debezium.form import STREAMED
from cdc_views.formats.debezium.form_parts import (
    Found,
    NoFormError,
    around,
    arrival_origin,
    arrival_position,
    base_of,
    check_keys,
    of_column,
    only,
    slot_at,
    slots_of,
)
from cdc_views.formats.debezium.notices import is_told_by_values, split_metadata
from cdc_views.formats.forms import JsonPath, Look, Slot, Unread, learned
from cdc_views.formats.row_form import LogPosition, RowForm
from cdc_views.model.schema import Column, TableSchema

_LOOKS = {
    "lsn": Look.POSITION,
    "file": Look.BINLOG_FILE,
    "pos": Look.BINLOG_POSITION,
    "row": Look.ORDINAL,
    "total_order": Look.ORDINAL,
    "ts_ms": Look.MILLIS,
    "ts_us": Look.MICROS,
}
_SAME = frozenset({"op", "deleted", "table", "schema", "db", "connector"})
"""Metadata that stays the same within a form."""


@dataclass
class Rows:
    """Learns the form of unwrapped rows like `record`, which is known to be good; raises `NoFormError`."""

    record: Record
    schema: TableSchema
    hints_of: HintsOf
    is_deletion: bool
    _base: JsonPath = field(init=False)
    _row: dict[str, Any] = field(init=False)
    _metadata: dict[str, Any] = field(init=False)
    _names: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        value = self.record.value
        self._base = base_of(self.record)
        if is_told_by_values(value):
            raise NoFormError
        self._row, self._metadata = split_metadata(value, self.schema)
        own = {name: split_metadata({name: None}, self.schema)[1] for name in value}
        self._names = {name: next(iter(found)) for name, found in own.items() if found}
        if len(self._metadata) != len(self._names):
            raise NoFormError  # two members are the same of the metadata
        check_keys(self.schema, self._row)

    def form(self, texts: Sequence[str]) -> RowForm:
        """Return the form of texts that are the same but for values, the last of them the record's."""
        form, slots = learned(texts, self._read, whole=self._is_column)
        cells = [column for column in self.schema.columns if not column.is_key and column.name in self._row]
        clock, second = self._clock(slots)
        return RowForm(
            form,
            keys=slots_of(self.schema.row_key, slots, self._base, self.hints_of),
            cells=() if self.is_deletion else slots_of(cells, slots, self._base, self.hints_of),
            is_deletion=self.is_deletion,
            written=self._written(slots),
            clock=clock,
            second=second,
            origin=arrival_origin(self.record, slots),
        )

    def _is_column(self, path: JsonPath) -> bool:
        return path[:-1] == self._base and self._column(path) is not None

    def _column(self, path: JsonPath) -> Column | None:
        """The column at a path, if its values are read."""
        column = next((column for column in self.schema.columns if column.name == path[len(self._base)]), None)
        return None if column is None or (self.is_deletion and not column.is_key) else column

    def _read(self, path: JsonPath, seen: Sequence[str]) -> Found:
        if path[: len(self._base)] != self._base:
            return around(path, seen, is_dated=True)
        plain = self._names.get(str(path[len(self._base)]))
        if plain in _LOOKS:
            return only(_LOOKS[plain], seen)
        if plain == "op" and self._metadata[plain] in ("c", "u"):
            return Unread.WRITE
        if plain in _SAME:
            return Unread.SAME
        column = None if plain else self._column(path)
        return Unread.SKIPPED if column is None else of_column(column, self.hints_of, seen)

    def _of(self, slots: Mapping[JsonPath, Slot], name: str) -> Slot:
        member = next(member for member, plain in self._names.items() if plain == name)
        return slot_at(slots, *self._base, member)

    def _written(self, slots: Mapping[JsonPath, Slot]) -> LogPosition:
        metadata, is_snapshot = self._metadata, self._metadata.get("op") == "r"
        if metadata.get("lsn") is not None:
            if is_snapshot:
                return LogPosition(self._of(slots, "lsn"), 0)
            ordinal = STREAMED if metadata.get("total_order") is None else self._of(slots, "total_order")
            return LogPosition(self._of(slots, "lsn"), ordinal, least=STREAMED)
        if metadata.get("file") is not None and metadata.get("pos") is not None:
            row = 0 if metadata.get("row") is None else self._of(slots, "row")
            file, position = self._of(slots, "file"), self._of(slots, "pos")
            return LogPosition(position, 0, file=file) if is_snapshot else LogPosition(position, row, file=file, add=1)
        return arrival_position(self.record, slots)

    def _clock(self, slots: Mapping[JsonPath, Slot]) -> tuple[Slot | None, int]:
        """The slot of the server's clock, and how many of what it counts are a second."""
        if self._metadata.get("ts_us") is not None:
            return self._of(slots, "ts_us"), 1_000_000
        if self._metadata.get("ts_ms") is not None:
            return self._of(slots, "ts_ms"), 1000
        return arrival_clock(self.record, slots), 1000


@dataclass
class Tombstones:
    """Learns the form of tombstones like `record`, which is known to be good; raises `NoFormError`."""

    record: Record
    schema: TableSchema
    hints_of: HintsOf
    _base: JsonPath = field(init=False)

    def __post_init__(self) -> None:
        self._base = ("key", "payload") if self.record.key_type is not None else ("key",)
        base_of(self.record)
        key = self.record.key
        if isinstance(key, dict):
            if key.keys() == {"schema", "payload"}:
                raise NoFormError
            check_keys(self.schema, key)
        elif key is None or isinstance(key, list) or len(self.schema.row_key) != 1:
            raise NoFormError

    def form(self, texts: Sequence[str]) -> RowForm:
        """Return the form of texts that are the same but for values, the last of them the record's."""
        form, slots = learned(texts, self._read, whole=lambda path: False)
        if not isinstance(self.record.key, dict):
            slots[(*self._base, self.schema.row_key[0].name)] = slot_at(slots, *self._base)
        return RowForm(
            form,
            keys=slots_of(self.schema.row_key, slots, self._base, self.hints_of),
            cells=(),
            is_deletion=True,
            written=arrival_position(self.record, slots),
            clock=arrival_clock(self.record, slots),
            origin=arrival_origin(self.record, slots),
        )

    def _read(self, path: JsonPath, seen: Sequence[str]) -> Found:
        if path == self._base and not isinstance(self.record.key, dict):
            return of_column(self.schema.row_key[0], self.hints_of, seen)
        if path[:-1] == self._base:
            column = next((column for column in self.schema.row_key if column.name == path[-1]), None)
            return Unread.SKIPPED if column is None else of_column(column, self.hints_of, seen)
        if path == ("key", "schema") or path[0] == "value":
            return Unread.SAME
        return around(path, seen, is_dated=True)


def arrival_clock(record: Record, slots: Mapping[JsonPath, Slot]) -> Slot | None:
    """The slot of Kafka's timestamp; None where the line has none."""
    return None if record.members.get("timestamp") is None else slot_at(slots, "timestamp")
