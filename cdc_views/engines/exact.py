"""Rows in exact form (see `plan.shape`) → native values, whichever engine they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from cdc_views.codec.comparable import floating_from
from cdc_views.codec.physical import from_physical
from cdc_views.codec.serialized import deserialize
from cdc_views.naming import physical_name
from cdc_views.oracle import path_type
from cdc_views.plan.names import IS_ROW
from cdc_views.plan.shape import exact_key, exact_name
from cdc_views.relation import Relation, element_value_type
from cdc_views.schema import Column, Role
from cdc_views.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, Udt, reads_from_bytes

Reader = Callable[[Any], Any]


def rows_of(relation: Relation, columns: tuple[str, ...], table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield each row as user name → native value, in the table's order; `columns` empty means all."""
    wanted = tuple(relation.schema.column(name) for name in columns) or relation.schema.columns
    readers = [(c.name, _source(c), _reader(c), c.is_key) for c in wanted]
    for batch in table.to_batches(max_chunksize=10_000):
        data = {name: batch.column(name).to_pylist() for name in {source for _, source, _, _ in readers} | {IS_ROW}}
        is_row = data[IS_ROW]
        for i in range(batch.num_rows):
            yield {
                # a row's key is never null, so a null there is a value of 0 bytes; rows of rule W3 have no clustering
                name: EMPTY if is_key and is_row[i] and data[source][i] is None else read(data[source][i])
                for name, source, read, is_key in readers
            }


def _source(column: Column) -> str:
    return exact_key(column) if column.is_key else exact_name(column.name)


def _reader(column: Column) -> Reader:
    kind = column.type
    if column.is_key:
        return _key_reader(column)
    if not kind.is_multicell:
        return _cell_reader(kind)
    match kind:
        case Udt():
            readers = [(physical_name(name), _cell_reader(field)) for name, field in kind.fields]
            return lambda value: None if value is None else tuple(read(value[name]) for name, read in readers)
        case ListOf() | SetOf() | MapOf():
            return _elements_reader(kind)
    raise TypeError(f"{kind} cannot be read")


def _key_reader(column: Column) -> Reader:
    kind = column.type
    if exact_key(column) == physical_name(column.name):
        return lambda value: from_physical(kind, value)
    single, is_partition = kind == Scalar(Kind.FLOAT), column.role is Role.PARTITION

    def read(value: Any) -> Any:
        if value is None:
            return None
        # shorter than any float: the identity of a value of 0 bytes
        return floating_from(bytes(value), single=single, is_partition=is_partition) if len(value) > 2 else EMPTY

    return read


def _cell_reader(kind: LogicalType) -> Reader:
    """Read struct(v): null is null, a null or empty `v` a value of 0 bytes."""
    read = _value_reader(kind)
    return lambda value: None if value is None else read(value["v"])


def _value_reader(kind: LogicalType) -> Reader:
    if reads_from_bytes(kind):
        return lambda value: EMPTY if value is None else deserialize(kind, bytes(value))
    return lambda value: EMPTY if value is None else from_physical(kind, value)


def _elements_reader(kind: ListOf | SetOf | MapOf) -> Reader:
    path_kind, value_kind = path_type(kind), element_value_type(kind)

    def path(entry: Any) -> Any:
        return EMPTY if entry["path"] is None else from_physical(path_kind, entry["path"])

    if value_kind is None:
        return lambda value: None if value is None else tuple(path(entry) for entry in value)
    read = _value_reader(value_kind)
    if isinstance(kind, ListOf):
        return lambda value: None if value is None else tuple(read(entry["v"]) for entry in value)
    return lambda value: None if value is None else tuple((path(entry), read(entry["v"])) for entry in value)

