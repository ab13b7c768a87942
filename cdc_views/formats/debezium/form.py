"""Debezium's envelopes of one form: which of their values are tokens of the row, its write time and its origin.

Everything else that decides what an event means stays the same within a form, and is looked at in a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_views.formats.connect.record import Record
from cdc_views.formats.connect.rows import HintsOf
from cdc_views.formats.debezium.form_parts import (
    Found,
    NoFormError,
    around,
    arrival_origin,
    base_of,
    check_keys,
    of_column,
    only,
    slot_at,
    slots_of,
)
from cdc_views.formats.debezium.notices import is_told_by_values
from cdc_views.formats.debezium.order import MYSQL, POSTGRES
from cdc_views.formats.forms import JsonPath, Look, Slot, Unread, learned
from cdc_views.formats.row_form import LogPosition, OriginForm, RowForm
from cdc_views.model.schema import TableSchema

_SAME = frozenset({"connector", "name", "db", "schema", "table", "snapshot", "version"})
"""Members of `source` that stay the same within a form."""
_OF_SOURCE = {
    "ts_ms": Look.MILLIS,
    "lsn": Look.POSITION,
    "pos": Look.BINLOG_POSITION,
    "row": Look.ORDINAL,
    "file": Look.BINLOG_FILE,
}
_OF_ORDER = {1: Look.POSITION, 2: Look.ORDINAL}
"""Of `source.order`: position and ordinal; the epoch stays the same."""
STREAMED = 1
"""The ordinal of an event of PostgreSQL whose place in its transaction is not told."""

Images = Mapping[str, HintsOf]
"""What is known of the columns of `before` and of `after`."""


@dataclass
class Envelopes:
    """Learns the form of events like `record`, an envelope that is known to be good.

    Raises `NoFormError` when it is made, or by `form`, where such events are read one by one.
    """

    record: Record
    schema: TableSchema
    hints: Images
    is_snapshot: bool
    _image: str = field(init=False)
    _base: JsonPath = field(init=False)

    def __post_init__(self) -> None:
        value = self.record.value
        if value["op"] not in ("c", "u", "r", "d") or is_told_by_values(value):
            raise NoFormError
        self._image = "before" if value["op"] == "d" else "after"
        self._base = base_of(self.record)
        check_keys(self.schema, value.get(self._image))
        before, after = (self.hints[image] for image in ("before", "after"))
        if self._compares_keys() and any(before(column) != after(column) for column in self.schema.row_key):
            raise NoFormError

    def form(self, texts: Sequence[str]) -> RowForm:
        """Return the form of texts that are the same but for values, the last of them the record's."""
        form, slots = learned(texts, self._read, whole=self._is_column)
        source, image = self.record.value["source"], self.record.value[self._image]
        cells = [column for column in self.schema.columns if not column.is_key and column.name in image]
        base, hints_of = (*self._base, self._image), self.hints[self._image]
        is_deletion = self._image == "before"
        return RowForm(
            form,
            keys=slots_of(self.schema.row_key, slots, base, hints_of),
            cells=() if is_deletion else slots_of(cells, slots, base, hints_of),
            is_deletion=is_deletion,
            written=self._written(slots, source),
            clock=self._clock(slots, source),
            origin=self._origin(slots, source),
            equal=self._equal(slots),
        )

    def _is_column(self, path: JsonPath) -> bool:
        if path[:-1] != (*self._base, self._image):
            return False
        column = next((column for column in self.schema.columns if column.name == path[-1]), None)
        return column is not None and (column.is_key or self._image == "after")

    def _read(self, path: JsonPath, seen: Sequence[str]) -> Found:
        if path[: len(self._base)] != self._base:
            return around(path, seen)
        match path[len(self._base) :]:
            case ("before" | "after" as image, str(name)):
                return self._of_image(image, name, seen)
            case ("source", "order", int(index)) if index in _OF_ORDER:
                return only(_OF_ORDER[index], seen)
            case ("source", str(name)) if name in _OF_SOURCE:
                return only(_OF_SOURCE[name], seen)
            case ("source", "order", *_):
                return Unread.SAME
            case ("source", str(name)) if name in _SAME:
                return Unread.SAME
            case ("ts_ms",) if self.record.value["source"].get("ts_ms") is None:
                return only(Look.MILLIS, seen)
            case ("transaction", "total_order"):
                return only(Look.ORDINAL, seen)
            case ("before" | "after" | "source" | "transaction" | "op" as name,):
                return Unread.WRITE if name == "op" and self._only_writes() else Unread.SAME
            case _:
                return Unread.SKIPPED

    def _of_image(self, image: str, name: str, seen: Sequence[str]) -> Found:
        column = next((column for column in self.schema.columns if column.name == name), None)
        if column is None or (image == "before" and not column.is_key):
            return Unread.SKIPPED
        if image != self._image and not self._compares_keys():
            # whether a key is there at all decides whether keys are compared
            return Unread.SAME if self.record.value["op"] == "u" else Unread.SKIPPED
        return of_column(column, self.hints[image], seen)

    def _compares_keys(self) -> bool:
        """Whether an update tells both keys: those that differ move the row."""
        before = self.record.value.get("before")
        is_there = isinstance(before, dict) and all(before.get(column.name) is not None for column in self.schema.row_key)
        return self.record.value["op"] == "u" and is_there

    def _only_writes(self) -> bool:
        """Whether it makes no difference if the row is new: no image of before tells of a key that it had."""
        return self.record.value["op"] in ("c", "u") and self.record.value.get("before") is None

    def _slot(self, slots: Mapping[JsonPath, Slot], *path: str | int) -> Slot:
        return slot_at(slots, *self._base, *path)

    def _written(self, slots: Mapping[JsonPath, Slot], source: Mapping[str, Any]) -> LogPosition:
        if source.get("order") is not None:
            position, ordinal = (self._slot(slots, "source", "order", index) for index in _OF_ORDER)
            return LogPosition(position, ordinal, epoch=int(source["order"][0]))
        if source["connector"] in POSTGRES:
            least = 0 if self.is_snapshot else STREAMED
            return LogPosition(self._slot(slots, "source", "lsn"), self._in_transaction(slots), least=least)
        if source["connector"] not in MYSQL:
            raise NoFormError
        row = self._slot(slots, "source", "row") if source.get("row") is not None else 0
        position, file = (self._slot(slots, "source", name) for name in ("pos", "file"))
        if self.is_snapshot:
            return LogPosition(position, 0, file=file)
        return LogPosition(position, row, file=file, add=1)

    def _in_transaction(self, slots: Mapping[JsonPath, Slot]) -> Slot | int:
        transaction = self.record.value.get("transaction")
        if self.is_snapshot:
            return 0
        if not isinstance(transaction, dict) or transaction.get("total_order") is None:
            return STREAMED
        return self._slot(slots, "transaction", "total_order")

    def _clock(self, slots: Mapping[JsonPath, Slot], source: Mapping[str, Any]) -> Slot | None:
        if source.get("ts_ms") is not None:
            return self._slot(slots, "source", "ts_ms")
        return None if self.record.value.get("ts_ms") is None else self._slot(slots, "ts_ms")

    def _origin(self, slots: Mapping[JsonPath, Slot], source: Mapping[str, Any]) -> OriginForm:
        if self.record.offset is not None:
            return arrival_origin(self.record, slots)
        segment = slots.get((*self._base, "source", "file"), str(source.get("file") or ""))
        return OriginForm(str(source.get("name") or ""), segment)

    def _equal(self, slots: Mapping[JsonPath, Slot]) -> tuple[tuple[Slot, Slot], ...]:
        if not self._compares_keys():
            return ()
        names = [column.name for column in self.schema.row_key]
        return tuple((self._slot(slots, "before", name), self._slot(slots, "after", name)) for name in names)
