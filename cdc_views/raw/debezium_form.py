"""Debezium's envelopes of one form: which of their values are tokens of the row, its write time and its origin.

Everything else that decides what an event means stays the same within a form, and is looked at in a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_views.raw.connect_record import Record
from cdc_views.raw.connect_rows import HintsOf
from cdc_views.raw.debezium_order import MYSQL, POSTGRES
from cdc_views.raw.forms import JsonPath, Look, Slot, Unread, learned
from cdc_views.raw.row_form import ColumnSlot, LogPosition, OriginForm, RowForm, look_of
from cdc_views.schema import TableSchema
from cdc_views.types import Scalar

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
_STREAMED = 1


class _NoFormError(Exception):
    """Events like this one are left to be read one by one."""


Images = Mapping[str, HintsOf]
"""What is known of the columns of `before` and of `after`."""


def envelope_form(
    texts: Sequence[str],
    record: Record,
    schema: TableSchema,
    *,
    hints: Images,
    is_snapshot: bool,
) -> RowForm | None:
    """Return how events of the form of some texts are read, or None for a form that is read one by one.

    `record` is the last text, an envelope which is known to be good.
    """
    try:
        return _Envelopes(record, schema, hints, is_snapshot).form(texts)
    except _NoFormError:
        return None


@dataclass
class _Envelopes:
    """Learns one form."""

    record: Record
    schema: TableSchema
    hints: Images
    is_snapshot: bool
    image: str = field(init=False)
    base: JsonPath = field(init=False)

    def __post_init__(self) -> None:
        value = self.record.value
        if value["op"] not in ("c", "u", "r", "d"):
            raise _NoFormError
        self.image = "before" if value["op"] == "d" else "after"
        self.base = ("value",) * bool(self.record.members) + ("payload",) * (self.record.value_type is not None)
        self._check(value)

    def _check(self, value: Mapping[str, Any]) -> None:
        """Refuse what is not one value a column, keys that are not in the image, and members that could be a notice's."""
        image = value.get(self.image)
        if "status" in value or "_problem" in self.record.members:
            raise _NoFormError
        if not isinstance(image, dict) or any(isinstance(found, dict | list) for found in image.values()):
            raise _NoFormError
        if any(image.get(column.name) is None for column in self.schema.row_key):
            raise _NoFormError
        used = [column for column in self.schema.columns if column.name in image and (column.is_key or self.image == "after")]
        if not all(isinstance(column.type, Scalar) for column in used):
            raise _NoFormError
        before, after = (self.hints[image] for image in ("before", "after"))
        if self._compares_keys() and any(before(column) != after(column) for column in self.schema.row_key):
            raise _NoFormError

    def form(self, texts: Sequence[str]) -> RowForm:
        form, slots = learned(texts, self._read)
        source = self.record.value["source"]
        is_deletion = self.image == "before"
        return RowForm(
            form,
            keys=self._columns(slots, [column.name for column in self.schema.row_key]),
            cells=() if is_deletion else self._columns(slots, [column.name for column in self._cells()]),
            is_deletion=is_deletion,
            written=self._written(slots, source),
            millis=self._millis(slots, source),
            origin=self._origin(slots, source),
            equal=self._equal(slots),
        )

    def _cells(self) -> list[Any]:
        image = self.record.value[self.image]
        return [column for column in self.schema.columns if not column.is_key and column.name in image]

    def _read(self, path: JsonPath, seen: Sequence[str]) -> tuple[Look, bool] | Unread:
        if path[: len(self.base)] != self.base:
            return self._of_line(path, seen)
        match path[len(self.base) :]:
            case ("before" | "after" as image, str(name)):
                return self._of_image(image, name, seen)
            case ("source", "order", int(index)) if index in _OF_ORDER:
                return _only(_OF_ORDER[index], seen)
            case ("source", str(name)) if name in _OF_SOURCE:
                return _only(_OF_SOURCE[name], seen)
            case ("source", "order", *_):
                return Unread.SAME
            case ("source", str(name)) if name in _SAME:
                return Unread.SAME
            case ("ts_ms",) if self.record.value["source"].get("ts_ms") is None:
                return _only(Look.MILLIS, seen)
            case ("transaction", "total_order"):
                return _only(Look.ORDINAL, seen)
            case ("before" | "after" | "source" | "transaction" | "op",):
                return Unread.SAME
            case _:
                return Unread.SKIPPED

    def _of_image(self, image: str, name: str, seen: Sequence[str]) -> tuple[Look, bool] | Unread:
        column = next((column for column in self.schema.columns if column.name == name), None)
        if column is None or (image == "before" and not column.is_key):
            return Unread.SKIPPED
        if image != self.image and not self._compares_keys():
            # whether a key is there at all decides whether keys are compared
            return Unread.SAME if self.record.value["op"] == "u" else Unread.SKIPPED
        return look_of(column.type, self.hints[image](column), seen), not column.is_key

    def _compares_keys(self) -> bool:
        """Whether an update tells both keys: those that differ move the row."""
        before = self.record.value.get("before")
        is_there = isinstance(before, dict) and all(before.get(column.name) is not None for column in self.schema.row_key)
        return self.record.value["op"] == "u" and is_there

    def _of_line(self, path: JsonPath, seen: Sequence[str]) -> tuple[Look, bool] | Unread:
        """Of the line around the event, or of the schema beside it."""
        match path:
            case ("offset" | "partition",):
                return _only(Look.COUNT, seen)
            case ("topic" | "destination" | "epoch",):
                return Unread.SAME
            case ("key",) | ("key", "payload", *_):
                return Unread.SKIPPED
            case ("key", str(name), *_) if name != "schema":
                return Unread.SKIPPED
            case (str(name), *_) if name not in ("key", "value", "schema"):
                return Unread.SKIPPED
        return Unread.SAME

    def _columns(self, slots: Mapping[JsonPath, Slot], names: Sequence[str]) -> tuple[ColumnSlot, ...]:
        columns = [self.schema.column(name) for name in names]
        return tuple(ColumnSlot(c, self._slot(slots, self.image, c.name), self.hints[self.image](c)) for c in columns)

    def _slot(self, slots: Mapping[JsonPath, Slot], *path: str | int) -> Slot:
        found = slots.get(self.base + path)
        if found is None:
            raise _NoFormError
        return found

    def _written(self, slots: Mapping[JsonPath, Slot], source: Mapping[str, Any]) -> LogPosition:
        if source.get("order") is not None:
            position, ordinal = (self._slot(slots, "source", "order", index) for index in _OF_ORDER)
            return LogPosition(position, ordinal, epoch=int(source["order"][0]))
        if source["connector"] in POSTGRES:
            return LogPosition(
                self._slot(slots, "source", "lsn"), self._in_transaction(slots), least=0 if self.is_snapshot else _STREAMED
            )
        if source["connector"] not in MYSQL:
            raise _NoFormError
        position, file = (self._slot(slots, "source", name) for name in ("pos", "file"))
        row = self._slot(slots, "source", "row") if source.get("row") is not None else 0
        if self.is_snapshot:
            return LogPosition(position, 0, file=file)
        return LogPosition(position, row, file=file, add=1)

    def _in_transaction(self, slots: Mapping[JsonPath, Slot]) -> Slot | int:
        transaction = self.record.value.get("transaction")
        if self.is_snapshot:
            return 0
        if not isinstance(transaction, dict) or transaction.get("total_order") is None:
            return _STREAMED
        return self._slot(slots, "transaction", "total_order")

    def _millis(self, slots: Mapping[JsonPath, Slot], source: Mapping[str, Any]) -> Slot | None:
        if source.get("ts_ms") is not None:
            return self._slot(slots, "source", "ts_ms")
        return None if self.record.value.get("ts_ms") is None else self._slot(slots, "ts_ms")

    def _origin(self, slots: Mapping[JsonPath, Slot], source: Mapping[str, Any]) -> OriginForm:
        topic, members = self.record.topic, self.record.members
        if self.record.offset is None:
            segment = slots.get((*self.base, "source", "file"), str(source.get("file") or ""))
            return OriginForm(str(source.get("name") or ""), segment)
        if ("offset",) not in slots or (members.get("partition") is not None and ("partition",) not in slots):
            raise _NoFormError
        return OriginForm("", slots.get(("partition",), topic), topic=topic, position=slots[("offset",)])

    def _equal(self, slots: Mapping[JsonPath, Slot]) -> tuple[tuple[Slot, Slot], ...]:
        if not self._compares_keys():
            return ()
        names = [column.name for column in self.schema.row_key]
        return tuple((self._slot(slots, "before", name), self._slot(slots, "after", name)) for name in names)


def _only(look: Look, seen: Sequence[str]) -> tuple[Look, bool] | Unread:
    """The look, where all that was seen has it; else what is there stays the same."""
    return (look, False) if all(look.pattern().fullmatch(token) for token in seen) else Unread.SAME
