"""Writes the rows of a SELECT as events of the format `cassandra-mutation/1`.

CQL does not return everything. The missing parts are chosen so that the log's events, which are exact, prevail:

- the *row marker*: its write time is 0, below any event. A row whose cells are all from `log_since` on gets none, as the log
  has its marker. It expires with the last cell if every cell expires. A repeated snapshot marks a row that has cells from
  the gap, at the write time of the oldest such cell: a deletion from before that cell has not deleted the row.
- a *list's paths*: made up, between those of elements prepended and appended later. Elements from `log_since` on are left to
  the log, which has their paths; older elements replace what the log may have of them (rule D3).
- elements of collections on a server before 5.0: their write time is 0 and they do not expire.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cdc_producers.cassandra.snapshot_query import RawRow, Selected, Selection
from cdc_views.errors import MalformedEventError
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, Udt
from cdc_views.rules.codec.jsontext import quote, to_json
from cdc_views.rules.codec.serialized import deserialize

UNTOLD = 0
"""The write time if CQL returns none: below any event of the log."""
_WRITTEN, _LEFT = ListOf(Scalar(Kind.BIGINT)), ListOf(Scalar(Kind.INT))
_BETWEEN = 0x1B21DD213814000 + 1_262_304_000 * 10_000_000
"""2010 in a timeuuid's 100 ns: paths of prepended elements count down from there (Cassandra's `Lists.java`)."""


class Moment(NamedTuple):
    """When a page was read: the coordinator's second; unless `is_certain`, it may be one less."""

    seconds: int
    is_certain: bool = True


class _Cell(NamedTuple):
    """A live cell; `left` is the seconds until it expires, None if it does not."""

    written: int
    left: int | None


class _Element(NamedTuple):
    """A collection's element, with path and value as JSON; a user type's missing field has no value."""

    path: str
    text: str | None
    cell: _Cell


@dataclass(frozen=True, slots=True)
class SnapshotEventWriter:
    """A writer of one table's events.

    Attributes:
        node: The node that the events name.
        segment: The segment that they name; differs in each run, so that (node, segment, position) is unique.
        log_since: The log has list elements written from here on (µs); see above.
        marks_rows: Whether a row with live cells counts as inserted, and so gets a row marker (rule W1).
        lacks_from: The log lacks writes only from here (µs) to `log_since`, so it has the markers of older rows. Lists
            replace those that another snapshot emitted. None for the first snapshot.
    """

    selection: Selection
    node: str
    segment: int
    log_since: int
    marks_rows: bool = True
    lacks_from: int | None = None

    def partition_of(self, row: RawRow) -> RawRow:
        """Return the row's partition key."""
        return row[2 : 2 + len(self.selection.table.partition)]

    def event(self, rows: Sequence[RawRow], moment: Moment, *, number: int, with_static: bool) -> bytes:
        """Return one event of rows of one partition; `number` is its position, `with_static` adds the static row."""
        table = self.selection.table
        written = [self._static(rows[0], moment)] if with_static else []
        written += [self._row(row, moment) for row in rows if self._is_row(row)]
        partition = _members(table.partition, rows[0][2:])
        return event_of(table, partition, list(filter(None, written)), node=self.node, position=(self.segment, number))

    def _is_row(self, row: RawRow) -> bool:
        """Return False if it holds only a partition's static columns: then it has no clustering key (rule W3)."""
        table = self.selection.table
        at = 2 + len(table.partition)
        return not table.clustering or row[at] is not None

    def _row(self, row: RawRow, moment: Moment) -> str:
        table = self.selection.table
        clustering = _members(table.clustering, row[2 + len(table.partition) :])
        cells, found = self._cells(self.selection.regulars, row, moment)
        marker = self._marker(found, moment)
        return f'{{"kind":"row","clustering":{clustering}{marker},"cells":[{",".join(cells)}]}}'

    def _marker(self, cells: list[_Cell], moment: Moment) -> str:
        """Return a row marker if the log may lack it; a row without cells shows only by its marker."""
        if self.lacks_from is None:
            is_marked = not cells or (self.marks_rows and any(cell.written < self.log_since for cell in cells))
            return _marker(UNTOLD, cells, moment) if is_marked else ""
        if not cells:
            # deletions in the log from before the gap have not deleted it
            return _marker(self.lacks_from, [], moment)
        lost = [cell for cell in cells if self.lacks_from <= cell.written < self.log_since]
        return _marker(min(cell.written for cell in lost), lost, moment) if lost and self.marks_rows else ""

    def _static(self, row: RawRow, moment: Moment) -> str:
        cells, _ = self._cells(self.selection.statics, row, moment)
        return f'{{"kind":"static","cells":[{",".join(cells)}]}}' if cells else ""

    def _cells(self, columns: Sequence[Selected], row: RawRow, moment: Moment) -> tuple[list[str], list[_Cell]]:
        """Return a row's cells as text, and all live cells, even those left to the log."""
        texts: list[str] = []
        found: list[_Cell] = []
        for selected in columns:
            value = row[selected.place]
            if value is None:
                continue
            if selected.column.type.is_multicell:
                self._elements(selected, row, value, moment, texts=texts, found=found)
            else:
                left = row[selected.ttl]
                cell = _Cell(_number(row[selected.written], 8), None if left is None else _number(left, 4))
                found.append(cell)
                texts.append(f"{_head(selected.column.name, cell, moment)}{_value(selected.column.type, value)}}}")
        return texts, found

    def _elements(
        self, selected: Selected, row: RawRow, value: bytes, moment: Moment, *, texts: list[str], found: list[_Cell]
    ) -> None:
        elements = _elements_of(selected, row, value)
        found += [element.cell for element in elements if element.text is not None]
        if not isinstance(selected.column.type, ListOf):
            for path, text, cell in elements:
                if text is not None:
                    texts.append(f'{_head(selected.column.name, cell, moment)},"path":{path}{text}}}')
        elif old := [element.cell.written for element in elements if element.cell.written < self.log_since]:
            # the elements that the log lacks, after a deletion of those that it may have
            newest = max(old) if self.lacks_from is None else self.log_since - 2
            texts += _replacing(selected, elements, self.log_since, newest + selected.has_times, moment)


def event_of(table: TableSchema, partition: str, rows: Sequence[str], *, node: str, position: tuple[int, int]) -> bytes:
    """Return an event of rows of one partition; both are JSON."""
    head = f'"format":"cassandra-mutation/1","node":{quote(node)},"segment":{position[0]},"position":{position[1]}'
    place = f'"keyspace":{quote(table.keyspace)},"table":{quote(table.name)}'
    return f'{{{head},{place},"partition":{partition},"rows":[{",".join(rows)}]}}'.encode()


def replaced_list(selected: Selected, row: RawRow | None, until: int, moment: Moment) -> Iterator[str]:
    """Yield the replacement of a list's elements older than `until` (µs): of a row that is gone, only their deletion."""
    value = None if row is None else row[selected.place]
    elements = [] if row is None or value is None else _elements_of(selected, row, value)
    return _replacing(selected, elements, until, until - 1, moment)


def _replacing(selected: Selected, elements: list[_Element], before: int, written: int, moment: Moment) -> Iterator[str]:
    """Yield a deletion of everything older than `written` (µs), then the elements older than `before`, written then."""
    name = selected.column.name
    if selected.has_times:
        yield f'{{"column":{quote(name)},"deletion":{{"written":{written - 1},"deleted_at":{moment.seconds}}}}}'
    for number, element in enumerate(elements, start=_BETWEEN):
        if element.cell.written < before:
            low, middle, high = number & 0xFFFFFFFF, number >> 32 & 0xFFFF, number >> 48 & 0x0FFF | 0x1000
            path = uuid.UUID(fields=(low, middle, high, 0x80, 0, 0))
            yield f'{_head(name, element.cell._replace(written=written), moment)},"path":"{path}"{element.text}}}'


def _head(name: str, cell: _Cell, moment: Moment) -> str:
    return f'{{"column":{quote(name)},"written":{cell.written}{_expiry(cell.left, moment)}'


def _expiry(left: int | None, moment: Moment) -> str:
    return "" if left is None else f',"ttl":{max(left, 1)},"expires_at":{moment.seconds + left}'


def _json(kind: LogicalType, data: bytes | None) -> str:
    return to_json(kind, deserialize(kind, data or b""))


def _value(kind: LogicalType, data: bytes) -> str:
    return f',"value":{_json(kind, data)},"bytes":"{data.hex()}"'


def _marker(written: int, cells: list[_Cell], moment: Moment) -> str:
    left = [cell.left for cell in cells if cell.left is not None]
    longest = max(left) if left and len(left) == len(cells) else None
    return f',"liveness":{{"written":{written}{_expiry(longest, moment)}}}'


def _members(columns: Sequence[Column], values: Sequence[bytes | None]) -> str:
    pairs = zip(columns, values, strict=False)
    return "{" + ",".join(f"{quote(c.name)}:{_json(c.type, data)}" for c, data in pairs) + "}"


def _elements_of(selected: Selected, row: RawRow, value: bytes) -> list[_Element]:
    name, entries, cells = selected.column.name, list(_entries(selected.column.type, value)), list[_Cell]()
    if selected.has_times:
        written, left = deserialize(_WRITTEN, row[selected.written] or b""), deserialize(_LEFT, row[selected.ttl] or b"")
        if len(written) > len(entries) or len(written) != len(left):
            raise MalformedEventError(f"{name!r}: {len(entries)} elements with {len(written)} write times")
        cells = [_Cell(UNTOLD if at is None else at, seconds) for at, seconds in zip(written, left, strict=True)]
    # a field that was added to a user type later has no times either
    cells += [_Cell(UNTOLD, None)] * (len(entries) - len(cells))
    return [_Element(path, text, cell) for (path, text), cell in zip(entries, cells, strict=True)]


def _entries(kind: LogicalType, value: bytes) -> Iterator[tuple[str, str | None]]:
    """Yield the path and the value of each element as JSON; a user type's missing fields too, without a value."""
    match kind:
        case SetOf():
            for part in _parts(value[4:]):
                yield _json(kind.element, part), ',"value":"","bytes":""'
        case ListOf():
            for part in _parts(value[4:]):
                yield "", _value(kind.element, part or b"")
        case MapOf():
            parts = list(_parts(value[4:]))
            for key, data in zip(parts[::2], parts[1::2], strict=True):
                yield _json(kind.key, key), _value(kind.value, data or b"")
        case Udt():
            parts = list(_parts(value))
            parts += [None] * (len(kind.fields) - len(parts))
            for (name, field), data in zip(kind.fields, parts, strict=True):
                yield quote(name), None if data is None else _value(field, data)
        case _:
            raise TypeError(f"{kind} has no elements")


def _parts(data: bytes) -> Iterator[bytes | None]:
    start = 0
    while start < len(data):
        (size,) = struct.unpack_from(">i", data, start)
        start += 4
        yield None if size < 0 else data[start : start + size]
        start += max(size, 0)


def _number(data: bytes | None, width: int) -> int:
    if data is None or len(data) != width:
        raise MalformedEventError("the server gave a value without its write time")
    return int.from_bytes(data, "big", signed=True)
