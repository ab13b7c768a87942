"""The rows of a raw table of events of one form, column by column: as `Relation.rows` makes them of facts."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.formats.forms import Slot
from cdc_views.formats.row_form import ColumnSlot, LogPosition, OriginForm, RowForm
from cdc_views.landing.tokens import Stored, Tokens, UnfitError, one_by_one, stored
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


def rows_of_tokens(
    relation: Relation, form: RowForm, tokens: Sequence[Sequence[str | None]], *, lines: Sequence[int], landed_at: int
) -> pa.Table:
    """Return one row for the tokens of each event, in order; raises `UnfitError` where some are to be read one by one.

    `lines` are the events' lines (`SourceLine.line`).
    """
    columns = list(zip(*tokens, strict=True))
    _check_equal(form, columns)
    return _Rows(relation, form, columns, lines).table(landed_at)


def _check_equal(form: RowForm, columns: Sequence[Tokens]) -> None:
    for one, other in form.equal:
        left, right = columns[one.group], columns[other.group]
        if left != right:
            raise UnfitError([index for index, token in enumerate(left) if token != right[index]])


@dataclass
class _Rows:
    """The rows of events of one form; `tokens` by group."""

    relation: Relation
    form: RowForm
    tokens: Sequence[Tokens]
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
            self._seconds = pc.divide(self._numbers(clock, pa.int64()), self.form.second)

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

    def _numbers(self, slot: Slot, kind: pa.DataType) -> pa.Array:
        return pa.array(self.tokens[slot.group], pa.string()).cast(kind)

    def _positions(self, at: LogPosition) -> pa.Array:
        position = self._numbers(at.position, pa.uint64())
        if at.file is None:
            return position
        numbers = {name: int(name.rpartition(".")[2]) for name in set(self.tokens[at.file.group]) if name}
        files = pa.array([numbers[name or ""] for name in self.tokens[at.file.group]], pa.uint64())
        return pc.bit_wise_or(pc.shift_left(files, _word(_FILE_SHIFT)), position)

    def _write_times(self, at: LogPosition) -> pa.Array:
        """`epoch · 2^96 + position · 2^32 + ordinal`, as the 128 bits of a decimal, the lower half first."""
        low = pc.bit_wise_or(pc.shift_left(self._position, _word(_POSITION_SHIFT)), self._ordinals(at))
        high = pc.bit_wise_or(pc.shift_right(self._position, _word(_POSITION_SHIFT)), _word(at.epoch << _EPOCH_SHIFT))
        words = array("Q", bytes(16 * self.size))
        words[0::2], words[1::2] = _words(low), _words(high)
        return pa.Array.from_buffers(self.relation.written, self.size, [None, pa.py_buffer(words.tobytes())])

    def _ordinals(self, at: LogPosition) -> pa.Array:
        if isinstance(at.ordinal, int):
            return self._repeated(max(at.ordinal + at.add, at.least), pa.uint64())
        ordinals = pc.add(self._numbers(at.ordinal, pa.uint64()), _word(at.add))
        return pc.max_element_wise(ordinals, _word(at.least))

    def _key(self, column: ColumnSlot) -> dict[str, pa.Array]:
        name, kind, tokens = column.column.name, column.column.type, self.tokens[column.slot.group]
        if not carries_comparable(kind) and not reads_from_bytes(kind):
            return {physical_name(name): stored(column, tokens).values}
        found = one_by_one(column, tokens)
        made = {physical_name(name): found.values}
        if carries_comparable(kind):
            made[key_name(name)] = pa.array([identity(column.column, value) for value in found.natives or ()], pa.binary())
        if reads_from_bytes(kind):
            made[bytes_name(name)] = pa.array([serialize(kind, value) for value in found.natives or ()], pa.binary())
        return made

    def _cells(self, column: ColumnSlot, kind: pa.StructType) -> pa.Array:
        found = stored(column, self.tokens[column.slot.group])
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
            position = self._numbers(origin.position, pa.int64())
        elif origin.counts_lines:
            position = pa.array(self.lines, pa.int64())
        parts = [self._repeated(origin.node, pa.string()), self._segments(origin), position]
        return pa.StructArray.from_arrays(parts, fields=list(kind))

    def _segments(self, origin: OriginForm) -> pa.Array:
        if isinstance(origin.segment, str):
            return self._repeated(origin.segment, pa.string())
        tokens = pa.array(self.tokens[origin.segment.group], pa.string())
        return tokens if not origin.is_arrival else pc.binary_join_element_wise(origin.topic, tokens, "/")


def _word(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


def _words(numbers: pa.Array) -> array[int]:
    found = array("Q")
    found.frombytes(memoryview(numbers.buffers()[1])[8 * numbers.offset : 8 * (numbers.offset + len(numbers))])
    return found
