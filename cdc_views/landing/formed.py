"""Reads many events into rows at once: events of a known form by columns; the others must be decoded one by one.

A form is learned from events that matched no form. Before it is used, it is compared with the format's own decoder on one
of them. It is kept as long as its `FormReader` lives.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc_views.errors import MalformedEventError
from cdc_views.formats.base import RawFormat, SourceLine
from cdc_views.formats.forms import ColumnSlot, LogPosition, RowForm, Slot, Values, shape
from cdc_views.landing.tokens import UnfitError, numbers_of, one_by_one, stored, words
from cdc_views.model.naming import KIND, bytes_name, key_name, physical_name
from cdc_views.model.types import carries_comparable, reads_from_bytes
from cdc_views.rules.cells import RANK_FLOOR
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.serialized import serialize
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation, identity

_LIVE = RANK_FLOOR + 1  # the rank of a row marker without a time to live
_FILE_SHIFT, _POSITION_SHIFT, _EPOCH_SHIFT = 40, 32, 32
_LARGEST = (1 << 63) - 1
_MOST_DIGITS = 7


def _is_unlike_itself(value: Any) -> bool:
    """Whether a value may contain a NaN."""
    return isinstance(value, bytes) and (b"NaN" in value or b"\\" in value)


@dataclass
class _Rows:
    """One row per event of a form; `columns` are by `Slot.group`. Raises `UnfitError` if some events must be read one by one."""

    relation: Relation
    form: RowForm
    columns: Sequence[Values]
    lines: Sequence[int]
    _position: pa.Array = field(init=False)
    _written: pa.Array = field(init=False)
    _seconds: pa.Array = field(init=False)

    def __post_init__(self) -> None:
        for one, other in self.form.equal:
            pairs = enumerate(zip(self.columns[one.group], self.columns[other.group], strict=True))
            if different := [index for index, (left, right) in pairs if left != right or _is_unlike_itself(left)]:
                raise UnfitError(different)
        self._position = self._positions(self.form.written)
        self._written = self._write_times(self.form.written)
        self._seconds = pc.divide(self._numbers(self.form.clock or 0).cast(pa.int64()), self.form.second)

    def table(self, landed_at: int) -> pa.Table:
        schema = self.relation.arrow_schema()
        made = {KIND: self._repeated(FactKind.ROW.value, pa.string())}
        for column in self.form.keys:
            made |= self._key(column)
        for column in self.form.cells:
            name = physical_name(column.column.name)
            made[name] = self._cells(column, schema.field(name).type)
        name, second = ("_deleted", self._seconds) if self.form.is_deletion else ("_live", self._repeated(_LIVE, pa.int64()))
        made[name] = pa.StructArray.from_arrays([self._written, second], fields=list(schema.field(name).type))
        made["_origin"] = self._origins(schema.field("_origin").type)
        made["_landed_at"] = self._repeated(landed_at, schema.field("_landed_at").type)
        arrays = [made[each.name] if each.name in made else pa.nulls(len(self.lines), each.type) for each in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _repeated(self, value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self.lines))

    def _positions(self, at: LogPosition) -> pa.Array:
        position = self._numbers(at.position)
        if at.file is None:
            return position
        files = [_file_number(name) for name in self.columns[at.file.group]]
        if None in files:
            raise UnfitError([index for index, number in enumerate(files) if number is None])
        return pc.bit_wise_or(pc.shift_left(pa.array(files, pa.uint64()), _word(_FILE_SHIFT)), position)

    def _write_times(self, at: LogPosition) -> pa.Array:
        """Return `epoch · 2^96 + position · 2^32 + ordinal`, as the 128 bits of a decimal, the lower half first."""
        ordinals = pc.add(self._numbers(at.ordinal), _word(at.add))
        low = pc.bit_wise_or(pc.shift_left(self._position, _word(_POSITION_SHIFT)), ordinals)
        epochs = pc.shift_left(self._numbers(at.epoch), _word(_EPOCH_SHIFT))
        high = pc.bit_wise_or(pc.shift_right(self._position, _word(_POSITION_SHIFT)), epochs)
        both = array("Q", bytes(16 * len(self.lines)))
        both[0::2], both[1::2] = words(low, "Q"), words(high, "Q")
        return pa.Array.from_buffers(self.relation.written, len(self.lines), [None, pa.py_buffer(both.tobytes())])

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
        ranks = self._repeated(found.ranks, pa.int64()) if isinstance(found.ranks, int) else found.ranks
        if found.values.null_count:
            # a tombstone's rank is its time by the server's clock
            ranks = pc.if_else(found.values.is_valid(), ranks, self._seconds)
        parts = [self._written, ranks, found.values, *([] if found.bytes is None else [found.bytes])]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=found.absent)

    def _origins(self, kind: pa.StructType) -> pa.Array:
        origin = self.form.origin
        position = pc.bit_wise_and(self._position, _word(_LARGEST)).cast(pa.int64())
        if origin.position is not None:
            position = self._numbers(origin.position).cast(pa.int64())
        elif origin.counts_lines:
            position = pa.array(self.lines, pa.int64())
        if isinstance(origin.segment, str):
            segments = self._repeated(origin.segment, pa.string())
        elif origin.position is not None or origin.counts_lines:
            partitions = self._numbers(origin.segment).cast(pa.string())
            segments = pc.binary_join_element_wise(origin.topic, partitions, "/")
        else:
            segments = pa.array(self.columns[origin.segment.group], pa.string())
        return pa.StructArray.from_arrays([self._repeated(origin.node, pa.string()), segments, position], fields=list(kind))


def _file_number(name: str) -> int | None:
    """Return the number at the end of a binlog file's name; None unless it is certainly below 2^24."""
    digits = name.rpartition(".")[2]
    return int(digits) if len(digits) <= _MOST_DIGITS and digits.isascii() and digits.isdecimal() else None


def _word(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


_SEEN_BEFORE = 3  # events of one form before it is learned; if it does not match them all, again at twice as many
_AT_ONCE = 200  # events that are decoded before their values are taken
_MOST_FORMS, _MOST_KINDS = 32, 256  # forms, and shapes of events, that are kept


@dataclass(frozen=True, slots=True)
class Formed:
    """Rows of some of a batch's events; `events` has the index of each row's event, ascending."""

    table: pa.Table
    events: list[int]


def in_order(parts: Sequence[Formed], *, empty: pa.Table) -> pa.Table:
    """Return the rows of all parts in the order of their events; rows of one event keep their order. `empty` has no rows."""
    filled = [part for part in parts if part.events]
    if len(filled) < 2:
        return filled[0].table if filled else empty
    order = pc.sort_indices(pa.array([event for part in filled for event in part.events], pa.int64()))  # a stable sort
    return pa.concat_tables([part.table for part in filled]).combine_chunks().take(order)


@dataclass(slots=True)
class _Matches:
    """The events of a batch that match a form: their indexes, their values by `Slot.group`, and the places to leave out.

    At most `_AT_ONCE` decoded events wait until their values are taken: more would not stay in the processor's cache.
    """

    form: RowForm
    indexes: list[int] = field(default_factory=list)
    columns: list[list[Any]] = field(init=False)
    unfit: set[int] = field(default_factory=set)
    _waiting: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = [[] for _ in self.form.form.slots]

    def take(self, contents: Sequence[bytes], start: int) -> int:
        """Add the events from `start` that match the form, up to the first that does not; return its index."""
        while True:
            end = min(start + _AT_ONCE - len(self._waiting), len(contents))
            found = self.form.form.run(contents, start, end)
            if found:
                self.indexes += range(start, start + len(found))
                self._waiting += found
                start += len(found)
            if start < end or start == len(contents):
                return start
            self.settle(contents)

    def settle(self, contents: Sequence[bytes]) -> None:
        form, first = self.form.form, len(self.indexes) - len(self._waiting)
        doubtful = form.doubtful([contents[index] for index in self.indexes[first:]])
        self.unfit.update(first + place for place in doubtful)
        for slot, column in zip(form.slots, self.columns, strict=True):
            column += slot.values(self._waiting)
        self._waiting = []

    def leave_out(self) -> None:
        kept = [place not in self.unfit for place in range(len(self.indexes))]
        self.indexes = list(compress(self.indexes, kept))
        self.columns = [list(compress(column, kept)) for column in self.columns]
        self.unfit.clear()


@dataclass(slots=True)
class FormReader:
    """Reads events of one table in one format; it learns forms as it reads."""

    relation: Relation
    format: RawFormat
    _forms: list[RowForm] = field(default_factory=list)
    _unmatched: _Unmatched = field(default_factory=lambda: _Unmatched())

    def read(self, contents: Sequence[bytes], *, lines: Sequence[int], landed_at: int) -> list[Formed]:
        """Return the rows of the events of known forms, one part per form; `lines` as in `SourceLine.line`."""
        known = [_Matches(form) for form in self._forms]  # the first is the form that matched last
        index = 0
        while index < len(contents):
            if known:
                index = known[0].take(contents, index)
            if index < len(contents):
                index = self._look_for(known, contents, index)
        self._forms = [matches.form for matches in known[:_MOST_FORMS]]
        return [formed for each in known if (formed := self._formed(each, contents, lines, landed_at)).events]

    def _look_for(self, known: list[_Matches], contents: Sequence[bytes], index: int) -> int:
        """Find or learn the form of an event that the first form did not match, put it first; return the next event's index."""
        for place in range(1, len(known)):
            if (after := known[place].take(contents, index)) > index:
                known.insert(0, known.pop(place))
                return after
        like = self._unmatched.note(contents[index])
        form = self._learned(like) if like else None
        if form is None:
            return index + 1
        known.insert(0, _Matches(form))
        return max(known[0].take(contents, index), index + 1)

    def _learned(self, contents: list[bytes]) -> RowForm | None:
        """Return the form of events with members of the same names, if it reads one of them as the decoder does."""
        schema = self.relation.schema
        try:
            form = self.format.row_form(contents, schema)
            matches = None if form is None else _Matches(form)
            if matches is None or matches.take(contents[-1:], 0) == 0:
                return None
            found = self._formed(matches, contents[-1:], [1], 0)
            expected = self.relation.rows(self.format.decode(SourceLine(contents[-1].decode()), schema), landed_at=0)
        except Exception:
            # events whose form cannot be learned are decoded one by one, which reports what is wrong
            return None
        # as texts, -0.0 and 0.0 differ, and NaN equals NaN
        is_right = not found.events or repr(found.table.to_pylist()) == repr(expected.to_pylist())
        return form if is_right else None

    def _formed(self, matches: _Matches, contents: Sequence[bytes], lines: Sequence[int], landed_at: int) -> Formed:
        matches.settle(contents)
        while True:
            if matches.unfit:
                matches.leave_out()
            if not matches.indexes:
                return Formed(self.relation.arrow_schema().empty_table(), [])
            mine = [lines[index] for index in matches.indexes]
            try:
                return Formed(_Rows(self.relation, matches.form, matches.columns, mine).table(landed_at), matches.indexes)
            except UnfitError as error:
                matches.unfit.update(error.indexes)


@dataclass(slots=True)
class _Unmatched:
    """The number of events of no known form, and the last few of them, by `shape`."""

    _seen: dict[Any, tuple[int, list[bytes]]] = field(default_factory=dict)

    def note(self, content: bytes) -> list[bytes]:
        """Note an event; return some events like it if their form is worth learning now, else none."""
        try:
            kind = shape(parse_json(content.decode()))
        except (MalformedEventError, UnicodeDecodeError):
            return []
        if len(self._seen) >= _MOST_KINDS:
            self._seen.clear()
        count, contents = self._seen.get(kind, (0, []))
        count, contents = count + 1, [*contents[1 - _SEEN_BEFORE :], content]
        self._seen[kind] = count, contents
        times, rest = divmod(count, _SEEN_BEFORE)
        return contents if rest == 0 and times.bit_count() == 1 else []
