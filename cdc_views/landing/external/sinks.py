"""Tables of Kafka Connect's BigQuery sink, arranged into the shapes of `shapes`.

The sink writes each field of a record's value as a column. It puts the record's key and its place in Kafka into two STRUCTs,
named by `kafkaKeyFieldName` and `kafkaDataFieldName`.
Source: confluentinc/kafka-connect-bigquery, docs of the connector, configuration options.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

import pyarrow as pa

from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.formats.key_value.format import KeyValue
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, Scalar, contains

_PLACE = ("topic", "partition", "offset")
_ROWS = ("before", "after")


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The names of the columns of a record's key and place in Kafka, if any; the project file declares the scales of `scales`."""

    key: str = "kafkaKey"
    data: str = "kafkaData"
    scales: frozenset[str] = frozenset()


def arranged(rows: pa.Table, *, format_name: str, schema: TableSchema, names: SinkColumns) -> pa.Table:
    """Return rows with the record's key and place as the columns `key`, `topic`, `partition` and `offset`.

    The columns of a value become one column `value` if the value is an event or the format is `key-value`. A table without
    the columns of `names` stays unchanged.
    """
    own = {name for name in (names.key, names.data) if name in rows.column_names and not schema.has(name)}
    if not own:
        return rows
    rest = rows.select([name for name in rows.column_names if name not in own])
    if not (format_name == KeyValue.name or {"op", "source"} <= set(rest.column_names)):
        return rest
    columns = {} if names.key not in own else {"key": rows.column(names.key)}
    columns["value"] = rest.to_struct_array()
    if names.data in own:
        columns |= _place(rows, names.data)
    return pa.table(columns)


def _place(rows: pa.Table, name: str) -> dict[str, pa.ChunkedArray]:
    kind = rows.schema.field(name).type
    if not pa.types.is_struct(kind):
        raise UsageError(f"column {name} is {kind}; a STRUCT of {', '.join(_PLACE)} was expected (kafkaDataFieldName)")
    parts = dict(zip((part.name for part in kind), rows.column(name).combine_chunks().flatten(), strict=True))
    return {part: pa.chunked_array([parts[part]]) for part in _PLACE if part in parts}


def check_is_exact(rows: pa.Schema, *, schema: TableSchema, scales: Container[str], where: str) -> None:
    """Raise `UnsupportedError` for a column of whose values BigQuery has lost a part.

    An array does not show whether it was null or empty; a multi-cell collection has no cells in both cases and loses nothing.
    A number does not show its trailing decimals; only a declared scale (also one of `scales`) restores them.
    Source: BigQuery, Data types, Array type, "Nulls and the array type"; Decimal types.
    """
    for name, kind in _columns(rows, schema):
        column = schema.column(name)
        if _holds(kind, pa.types.is_list) and not column.type.is_multicell:
            raise UnsupportedError(
                f"{where}: column {name!r} is an ARRAY there, and BigQuery keeps no null arrays: {column.type} that is null "
                "cannot be told from an empty one",
                remedy="let the sink write the event, or this column, as JSON or STRING",
            )
        has_scale = name in scales or (isinstance(column.type, Scalar) and column.type.scale is not None)
        if _holds(kind, pa.types.is_decimal) and contains(column.type, Kind.DECIMAL) and not has_scale:
            raise UnsupportedError(
                f"{where}: column {name!r} is a number there, and BigQuery's keep no scale: 1.1 cannot be told from 1.10",
                remedy="let the sink write it as STRING (decimal.handling.mode=string), or say its scale in the schema file, "
                "or in `raw: {options: {scales: …}}`",
            )


def _columns(rows: pa.Schema, schema: TableSchema) -> list[tuple[str, pa.DataType]]:
    """Return the source's columns in a table, at the top or within an event's images, with their types."""
    found: list[tuple[str, pa.DataType]] = []
    for field in rows:
        if pa.types.is_struct(field.type) and field.name in (*_ROWS, "key", "value"):
            found += _columns(pa.schema(list(field.type)), schema)
        elif schema.has(field.name):
            found.append((field.name, field.type))
    return found


def _holds(kind: pa.DataType, is_one: Callable[[pa.DataType], bool]) -> bool:
    return any(_holds(part.type, is_one) for part in kind) if pa.types.is_struct(kind) else is_one(kind)


def without_empty(value: object) -> object:
    """Return a Python value with null for each empty array: BigQuery stores null arrays as empty ones."""
    if isinstance(value, dict):
        return {name: without_empty(part) for name, part in value.items()}
    if isinstance(value, list):
        return [without_empty(part) for part in value] or None
    return value
