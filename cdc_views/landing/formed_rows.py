"""The rows of a raw table of events of one form, column by column: as `Relation.rows` makes them of facts."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.formats.forms import Slot, Values
from cdc_views.formats.row_form import ColumnSlot, LogPosition, OriginForm, RowForm
from cdc_views.landing.tokens import Stored, UnfitError, numbers_of, one_by_one, stored
from cdc_views.model.naming import KIND, bytes_name, key_name, physical_name
from cdc_views.model.types import carries_comparable, reads_from_bytes
from cdc_views.rules.cells import RANK_FLOOR
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation, identity

_LIVE = RANK_FLOOR + 1
"""The rank of a row marker without a time to live."""
_FILE_SHIFT, _POSITION_SHIFT, _EPOCH_SHIFT = 40, 32, 32
_LARGEST = (1 << 63) - 1
_MOST_DIGITS = 7


def rows_of_events(
    relation: Relation, form: RowForm, columns: Sequence[Values], *, lines: Sequence[int], landed_at: int
) -> pa.Table:
    """Return one row for each event of a form, in order; raises `UnfitError` where some are to be read one by one.

    `columns` are the events' values, by `Slot.group`; `lines` are their lines (`SourceLine.line`).
    """
    for one, other in form.equal:
        pairs = enumerate(zip(columns[one.group], columns[other.group], strict=True))
        if different := [index for index, (left, right) in pairs if left != right or _is_unlike_itself(left)]:
            raise UnfitError(different)
    return _Rows(relation, form, columns, lines).table(landed_at)


def _is_unlike_itself(value: Any) -> bool:
    """Whether a value may have a NaN in it."""
    return isinstance(value, bytes) and (b"NaN" in value or b"\\" in value)


@dataclass
class _Rows:
    """The rows of events of one form; `columns` by `Slot.group`."""

    relation: Relation
    form: RowForm
    columns: Sequence[Values]
    lines: Sequence[int]
    size: int = field(init=False)
    _position: pa.Array = field(init=False)
    _written: pa.Array = field(init=False)
    _seconds: pa.Array = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.lines)
        self._position = self._positions(self.form.written)
        self._written = self._write_times(self.form.written)
        clock = self.form.clock
        self._seconds = self._repeated(0, pa.int64())
        if clock is not None:
            self._seconds = pc.divide(self._numbers(clock).cast(pa.int64()), self.form.second)

    def table(self, landed_at: int) -> pa.Table:
        """Return the rows."""
        schema = self.relation.arrow_schema()
        made = {KIND: self._repeated(FactKind.ROW.value, pa.string())}
        for column in self.form.keys:
            made |= self._key(column)
        for column in self.form.cells:
            name = physical_name(column.column.name)
            made[name] = self._cells(column, schema.field(name).type)
        made |= self._of_row(schema)
        made["_origin"] = self._origins(schema.field("_origin").type)
        made["_landed_at"] = self._repeated(landed_at, schema.field("_landed_at").type)
        arrays = [made[each.name] if each.name in made else pa.nulls(self.size, each.type) for each in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _repeated(self, value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), self.size)

    def _positions(self, at: LogPosition) -> pa.Array:
        position = self._numbers(at.position)
        if at.file is None:
            return position
        files = [_file_number(name) for name in self.columns[at.file.group]]
        if None in files:
            raise UnfitError([index for index, number in enumerate(files) if number is None])
        return pc.bit_wise_or(pc.shift_left(pa.array(files, pa.uint64()), _word(_FILE_SHIFT)), position)

    def _write_times(self, at: LogPosition) -> pa.Array:
        """`epoch · 2^96 + position · 2^32 + ordinal`, as the 128 bits of a decimal, the lower half first."""
        ordinals = pc.max_element_wise(pc.add(self._numbers(at.ordinal), _word(at.add)), _word(at.least))
        low = pc.bit_wise_or(pc.shift_left(self._position, _word(_POSITION_SHIFT)), ordinals)
        epochs = pc.shift_left(self._numbers(at.epoch), _word(_EPOCH_SHIFT))
        high = pc.bit_wise_or(pc.shift_right(self._position, _word(_POSITION_SHIFT)), epochs)
        words = array("Q", bytes(16 * self.size))
        words[0::2], words[1::2] = _words(low), _words(high)
        return pa.Array.from_buffers(self.relation.written, self.size, [None, pa.py_buffer(words.tobytes())])

    def _numbers(self, given: Slot | int) -> pa.Array:
        return self._repeated(given, pa.uint64()) if isinstance(given, int) else numbers_of(given, self.columns[given.group])

    def _key(self, column: ColumnSlot) -> dict[str, pa.Array]:
        name, kind, values = column.column.name, column.column.type, self.columns[column.slot.group]
        if not carries_comparable(kind) and not reads_from_bytes(kind):
            return {physical_name(name): stored(column, values).values}
        found = one_by_one(column, values)
        made = {physical_name(name): found.values}
        if carries_comparable(kind):
            made[key_name(name)] = pa.array([identity(column.column, value) for value in found.natives or ()], pa.binary())
        if reads_from_bytes(kind):
            made[bytes_name(name)] = pa.array([serialize(kind, value) for value in found.natives or ()], pa.binary())
        return made

    def _cells(self, column: ColumnSlot, kind: pa.StructType) -> pa.Array:
        found = stored(column, self.columns[column.slot.group])
        parts = [self._written, self._ranks(found), found.values]
        stored_too = [] if found.bytes is None else [found.bytes]
        return pa.StructArray.from_arrays([*parts, *stored_too], fields=list(kind), mask=found.absent)

    def _ranks(self, found: Stored) -> pa.Array:
        ranks = self._repeated(found.ranks, pa.int64()) if isinstance(found.ranks, int) else found.ranks
        # a tombstone's rank is when it was written by the server's clock
        return pc.if_else(found.values.is_valid(), ranks, self._seconds) if found.values.null_count else ranks

    def _of_row(self, schema: pa.Schema) -> dict[str, pa.Array]:
        if self.form.is_deletion:
            kind = schema.field("_deleted").type
            return {"_deleted": pa.StructArray.from_arrays([self._written, self._seconds], fields=list(kind))}
        kind = schema.field("_live").type
        return {"_live": pa.StructArray.from_arrays([self._written, self._repeated(_LIVE, pa.int64())], fields=list(kind))}

    def _origins(self, kind: pa.StructType) -> pa.Array:
        origin = self.form.origin
        position = pc.bit_wise_and(self._position, _word(_LARGEST)).cast(pa.int64())
        if origin.position is not None:
            position = self._numbers(origin.position).cast(pa.int64())
        elif origin.counts_lines:
            position = pa.array(self.lines, pa.int64())
        parts = [self._repeated(origin.node, pa.string()), self._segments(origin), position]
        return pa.StructArray.from_arrays(parts, fields=list(kind))

    def _segments(self, origin: OriginForm) -> pa.Array:
        if isinstance(origin.segment, str):
            return self._repeated(origin.segment, pa.string())
        texts = pa.array(self.columns[origin.segment.group], pa.string())
        return texts if not origin.is_arrival else pc.binary_join_element_wise(origin.topic, texts, "/")


def _file_number(name: str) -> int | None:
    """The number that a binlog file's name ends in, None for one that is not below 2^24 for certain."""
    digits = name.rpartition(".")[2]
    return int(digits) if len(digits) <= _MOST_DIGITS and digits.isascii() and digits.isdecimal() else None


def _word(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


def _words(numbers: pa.Array) -> array[int]:
    found = array("Q")
    found.frombytes(memoryview(numbers.buffers()[1])[8 * numbers.offset : 8 * (numbers.offset + len(numbers))])
    return found
