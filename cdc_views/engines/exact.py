"""Rows in exact form (see `plan.representation`) of any engine → native values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, Role
from cdc_views.model.types import EMPTY, ListOf, LogicalType, MapOf, SetOf, Udt, reads_from_bytes
from cdc_views.plan.names import IS_ROW
from cdc_views.plan.representation import exact_key, exact_name
from cdc_views.rules.codec.physical import from_physical
from cdc_views.rules.codec.serialized import deserialize
from cdc_views.rules.oracle import path_type
from cdc_views.storage.relation import Relation, element_value_type

Reader = Callable[[Any], Any]
_KEYS, _KEYS_ALONE = {Role.PARTITION, Role.CLUSTERING}, {Role.PARTITION}  # of a row; of a partition's statics alone (W3)


def rows_of(relation: Relation, columns: tuple[str, ...], table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield each row as user name → native value, in the table's order; empty `columns` means all."""
    return rows_in(relation, columns, table.to_batches(max_chunksize=10_000))


def rows_in(relation: Relation, columns: tuple[str, ...], batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """As `rows_of`, of one batch after the other."""
    wanted = tuple(relation.schema.column(name) for name in columns) or relation.schema.columns
    readers = [(c.name, exact_key(c) if c.is_key else exact_name(c.name), _reader(c), c.role) for c in wanted]
    for batch in batches:
        data = {name: batch.column(name).to_pylist() for name in {source for _, source, _, _ in readers} | {IS_ROW}}
        is_row = data[IS_ROW]
        for i in range(batch.num_rows):
            keys = _KEYS if is_row[i] else _KEYS_ALONE
            yield {
                # K1: a null key is a key of 0 bytes; only the rows of W3 lack a clustering key
                name: EMPTY if data[source][i] is None and role in keys else read(data[source][i])
                for name, source, read, role in readers
            }


def _reader(column: Column) -> Reader:
    kind = column.type
    if column.is_key:
        return _or_none(_value_reader(kind))  # `rows_of` handles null
    if not kind.is_multicell:
        return _cell_reader(kind)
    match kind:
        case Udt():
            readers = [(physical_name(name), _cell_reader(field)) for name, field in kind.fields]
            return _or_none(lambda value: tuple(read(value[name]) for name, read in readers))
        case ListOf() | SetOf() | MapOf():
            return _or_none(_elements_reader(kind))
    raise TypeError(f"{kind} cannot be read")


def _or_none(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _cell_reader(kind: LogicalType) -> Reader:
    """Read struct(v): a null struct is null, a null or empty `v` is a value of 0 bytes."""
    read = _value_reader(kind)
    return _or_none(lambda value: read(value["v"]))


def _value_reader(kind: LogicalType) -> Reader:
    if reads_from_bytes(kind):
        return lambda value: EMPTY if value is None else deserialize(kind, bytes(value))
    return lambda value: EMPTY if value is None else from_physical(kind, value)


def _elements_reader(kind: ListOf | SetOf | MapOf) -> Reader:
    path, value_kind = _value_reader(path_type(kind)), element_value_type(kind)
    if value_kind is None:
        return lambda value: tuple(path(entry["path"]) for entry in value)
    read = _value_reader(value_kind)
    if isinstance(kind, ListOf):
        return lambda value: tuple(read(entry["v"]) for entry in value)
    return lambda value: tuple((path(entry["path"]), read(entry["v"])) for entry in value)
