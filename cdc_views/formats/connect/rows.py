"""Keys and cells of a row that is a JSON object; shared by the formats that send whole rows (rules S1, S4)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import MalformedEventError, did_you_mean
from cdc_views.formats.connect.hints import Hints
from cdc_views.formats.connect.values import array, map_entries, map_key, named
from cdc_views.formats.unavailable import is_unavailable
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import ListOf, LogicalType, MapOf, SetOf, Udt
from cdc_views.rules.cells import Cell, Deletion, Liveness
from cdc_views.rules.facts import Elements, Fact, FactKind, Origin

HintsOf = Callable[[Column], Hints]  # what is known about the encoding of a column's values
_NEW_COLUMN = "where the source has it now, update the schema, then run cdc-views replay"
RowKey = tuple[tuple[Any, ...], tuple[Any, ...]]  # native values of (partition key, clustering key)


@dataclass(frozen=True, slots=True)
class Stamp:
    """An event's write time and time to live; `deleted_at` is the server's time (s) that its deletions carry."""

    written: int
    deleted_at: int
    ttl: int | None = None
    expires_at: int | None = None

    @property
    def deletion(self) -> Deletion:
        """A deletion of everything written until then."""
        return Deletion(self.written, self.deleted_at)

    def cell(self, name: str, kind: LogicalType, value: Any, *, hints: Hints) -> Cell:
        """Return a cell of a column or an element; null is a tombstone. Raises `MalformedEventError`, which names the column."""
        if value is None:
            return Cell(self.written, deleted_at=self.deleted_at)
        found, order_bytes = named(name, kind, value, hints=hints)
        return Cell(self.written, found, order_bytes, self.ttl, self.expires_at)


def read_key(schema: TableSchema, rows: Sequence[Mapping[str, Any]], *, hints_of: HintsOf) -> RowKey:
    """Return the row key, with each column from the first of `rows` that has it; raises `MalformedEventError`."""
    return read_columns(schema.partition, rows, hints_of=hints_of), read_columns(schema.clustering, rows, hints_of=hints_of)


def read_columns(columns: Iterable[Column], rows: Sequence[Mapping[str, Any]], *, hints_of: HintsOf) -> tuple[Any, ...]:
    """Return native values of key columns, each from the first of `rows` that has it; raises `MalformedEventError`."""
    return tuple(_key_value(column, rows, hints_of) for column in columns)


def _key_value(column: Column, rows: Sequence[Mapping[str, Any]], hints_of: HintsOf) -> Any:
    for row in rows:
        if row.get(column.name) is not None:
            return named(column.name, column.type, row[column.name], hints=hints_of(column))[0]
    raise MalformedEventError(f"key column {column.name!r} is missing or null")


def has_key(schema: TableSchema, row: Any) -> bool:
    """Whether `row` is an object with a value for every key column."""
    return isinstance(row, dict) and all(row.get(column.name) is not None for column in schema.row_key)


def key_object(schema: TableSchema, key: Any) -> dict[str, Any]:
    """Return a record's key as an object; a scalar is the value of the only key column."""
    if isinstance(key, dict):
        return key
    if key is None or len(schema.row_key) != 1:
        return {}
    return {schema.row_key[0].name: key}


def read_row(
    schema: TableSchema, row: Mapping[str, Any], *, stamp: Stamp, hints_of: HintsOf
) -> tuple[dict[str, Cell], dict[str, Elements]]:
    """Return a cell for each present non-key column (null: a tombstone), and the elements of multi-cell columns.

    A column that is missing or was not sent (`is_unavailable`) is absent (rules C5, S4). Raises `MalformedEventError` for an
    unknown column, and for a value that is not of its column's type.
    """
    cells: dict[str, Cell] = {}
    elements: dict[str, Elements] = {}
    for name, value in row.items():
        column = known_column(schema, name)
        if column is None or column.is_key or is_unavailable(value):
            continue
        if column.type.is_multicell:
            elements[name] = overwritten(column, value, stamp=stamp, hints=hints_of(column))
        else:
            cells[name] = stamp.cell(name, column.type, value, hints=hints_of(column))
    return cells, elements


def written_row(
    schema: TableSchema, key: RowKey, row: Mapping[str, Any], *, stamp: Stamp, hints_of: HintsOf, origin: Origin
) -> Fact:
    """Return the fact of a row that is written whole (rule S1); raises like `read_row`."""
    cells, elements = read_row(schema, row, stamp=stamp, hints_of=hints_of)
    return Fact(FactKind.ROW, *key, Liveness(stamp.written), cells=cells, elements=elements, origin=origin)


def deleted_row(key: RowKey, *, stamp: Stamp, origin: Origin) -> Fact:
    """Return the fact of a row's deletion."""
    return Fact(FactKind.ROW, *key, deletion=stamp.deletion, origin=origin)


def known_column(schema: TableSchema, name: str) -> Column | None:
    """Return the column of that name, None if it was dropped; raises `MalformedEventError` if it is unknown."""
    if schema.has(name):
        return schema.column(name)
    if schema.drop_time(name) is not None:
        return None
    guess = did_you_mean(name, [column.name for column in schema.columns])
    raise MalformedEventError(f"{schema.full_name} has no column {name!r} ({_NEW_COLUMN}){guess}")


def overwritten(column: Column, value: Any, *, stamp: Stamp, hints: Hints) -> Elements:
    """Return the replacement of a multi-cell column: a deletion just before the write, then the elements (rule D3)."""
    if value is None:
        return Elements(stamp.deletion)
    return Elements(Deletion(stamp.written - 1, stamp.deleted_at), element_cells(column, value, stamp=stamp, hints=hints))


def element_cells(column: Column, value: Any, *, stamp: Stamp, hints: Hints) -> tuple[tuple[Any, Cell], ...]:
    """Return the path and the cell of each element; a null map value or list element is a tombstone."""
    try:
        return tuple(_elements(column.type, value, stamp, hints))
    except MalformedEventError as error:
        raise MalformedEventError(f"{column.name!r}: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedEventError(f"{column.name!r} is not a {column.type}: {error}") from error


def _elements(kind: LogicalType, value: Any, stamp: Stamp, hints: Hints) -> list[tuple[Any, Cell]]:
    match kind:
        case SetOf():
            items = named("element", SetOf(kind.element), value, hints=hints)[0]
            return [(item, Cell(stamp.written, b"", b"", stamp.ttl, stamp.expires_at)) for item in items]
        case MapOf():
            keyed = [(map_key(kind.key, key, hints), item) for key, item in map_entries(value)]
            return [(key, stamp.cell("element", kind.value, item, hints=hints.inside("values"))) for key, item in keyed]
        case ListOf():
            cells = [stamp.cell("element", kind.element, item, hints=hints.inside("items")) for item in array(value)]
            return [(list_path(stamp.written, index), cell) for index, cell in enumerate(cells)]
        case Udt():
            fields = ((name, field, value[name]) for name, field in kind.fields if name in value)
            return [(name, stamp.cell("element", field, item, hints=hints.of_field(name))) for name, field, item in fields]
    raise TypeError(f"{kind} is one cell")


_UUID_EPOCH = 0x01B21DD213814000  # 100 ns from 1582-10-15 to 1970
_INDEX_BYTES = 6


def list_path(written: int, index: int) -> uuid.UUID:
    """Return the path of a list's element if the source sends none: a timeuuid of the write time and the index.

    Lists that are written later sort later; elements of one write sort by index (rule K2 compares the low bytes *signed*,
    so they are flipped). Cassandra makes paths from a server's clock; these depend on the event only.
    """
    ticks = (written * 10 + _UUID_EPOCH) % (1 << 60)
    node = bytes(part ^ 0x80 for part in index.to_bytes(_INDEX_BYTES, "big"))
    low, mid, high = ticks & 0xFFFF_FFFF, ticks >> 32 & 0xFFFF, ticks >> 48 | 0x1000
    return uuid.UUID(fields=(low, mid, high, 0x80, 0x80, int.from_bytes(node, "big")))
