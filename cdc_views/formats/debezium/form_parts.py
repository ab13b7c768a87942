"""What forms of Debezium's events have in common: the line around an event, where it was read, and a row's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_views.formats.connect.record import Record
from cdc_views.formats.connect.rows import HintsOf
from cdc_views.formats.forms import JsonPath, Look, Slot, Unread
from cdc_views.formats.row_form import ColumnSlot, LogPosition, OriginForm, look_of
from cdc_views.model.schema import Column, TableSchema

Found = tuple[Look, bool] | Unread
"""What is read at a path: what its tokens look like and whether null may stand there, or no token."""
_ENVELOPE = {"schema", "payload"}


class NoFormError(Exception):
    """Events like this one are left to be read one by one."""


def base_of(record: Record) -> JsonPath:
    """Return where in the text an event's value is; raises `NoFormError` where values decide that."""
    base: JsonPath = ("value",) * bool(record.members) + ("payload",) * (record.value_type is not None)
    names = record.value.keys() if isinstance(record.value, dict) else set()
    if "_problem" in record.members or {"key", "value"} <= names or names == _ENVELOPE:
        raise NoFormError
    return base


def only(look: Look, seen: Sequence[str]) -> Found:
    """The look, where all that was seen has it; else what is there stays the same."""
    return (look, False) if all(look.pattern().fullmatch(token) for token in seen) else Unread.SAME


def around(path: JsonPath, seen: Sequence[str], *, is_dated: bool = False) -> Found:
    """What is read of the line around an event, or of the schema beside it; `is_dated`: the line's timestamp counts."""
    match path:
        case ("offset" | "partition",):
            return only(Look.COUNT, seen)
        case ("timestamp",) if is_dated:
            return only(Look.MILLIS, seen)
        case ("topic" | "destination" | "epoch",):
            return Unread.SAME
        case ("key",) | ("key", "payload", *_):
            return Unread.SKIPPED
        case ("key", str(name), *_) if name != "schema":
            return Unread.SKIPPED
        case (str(name), *_) if name not in ("key", "value", "schema"):
            return Unread.SKIPPED
    return Unread.SAME


def of_column(column: Column, hints_of: HintsOf, seen: Sequence[str]) -> Found:
    """What is read of a column's values; raises `NoFormError` where they are no tokens, or one cell is not enough."""
    if column.type.is_multicell:
        raise NoFormError
    look = look_of(column.type, hints_of(column), seen)
    if look is None:
        raise NoFormError
    return look, not column.is_key


def check_keys(schema: TableSchema, row: Any) -> None:
    """Refuse a row that does not have the whole key: it may be elsewhere in the event."""
    if not isinstance(row, dict) or any(row.get(column.name) is None for column in schema.row_key):
        raise NoFormError


def slots_of(
    columns: Sequence[Column], slots: Mapping[JsonPath, Slot], base: JsonPath, hints_of: HintsOf
) -> tuple[ColumnSlot, ...]:
    """Return the columns' slots, which stand at their names within `base`."""
    return tuple(ColumnSlot(column, slot_at(slots, *base, column.name), hints_of(column)) for column in columns)


def slot_at(slots: Mapping[JsonPath, Slot], *path: str | int) -> Slot:
    """Return the slot at a path; raises `NoFormError` where there is none."""
    if path not in slots:
        raise NoFormError
    return slots[path]


def arrival_origin(record: Record, slots: Mapping[JsonPath, Slot]) -> OriginForm:
    """Where events were read that are told apart by topic, partition and offset, or by their line where there is none."""
    topic = record.topic
    position = None if record.offset is None else slot_at(slots, "offset")
    is_parted = record.members.get("partition") is not None
    segment = slot_at(slots, "partition") if is_parted else topic
    return OriginForm("", segment, topic=topic, position=position, counts_lines=position is None)


def arrival_position(record: Record, slots: Mapping[JsonPath, Slot]) -> LogPosition:
    """The write time of events that only Kafka's offset orders."""
    return LogPosition(slot_at(slots, "offset"), 0, epoch=record.epoch)
