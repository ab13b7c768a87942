"""Rows of a raw table as BigQuery's Storage Write API takes them: a descriptor in protobuf, and messages of it.

Source of the types: BigQuery, Introduction to the Storage Write API, "Supported protocol buffer and Arrow data types":
TIMESTAMP takes int64 µs, BIGNUMERIC a string.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

from cdc_views.errors import UnsupportedError

_Field = descriptor_pb2.FieldDescriptorProto
_ROW = "Row"
_SCALARS = (
    (pa.types.is_integer, _Field.TYPE_INT64),
    (pa.types.is_floating, _Field.TYPE_DOUBLE),
    (pa.types.is_string, _Field.TYPE_STRING),
    (pa.types.is_binary, _Field.TYPE_BYTES),
    (pa.types.is_boolean, _Field.TYPE_BOOL),
    (pa.types.is_decimal, _Field.TYPE_STRING),
    (pa.types.is_timestamp, _Field.TYPE_INT64),
)


class RowEncoder:
    """Serializes Arrow rows; `descriptor` says how they read."""

    def __init__(self, schema: pa.Schema) -> None:
        """`schema` is the raw table's; raises `UnsupportedError` for lists within lists, which BigQuery has not."""
        self.schema = schema
        self.descriptor = _message(_ROW, list(schema))
        file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="cdc_views", syntax="proto2")
        file.message_type.append(self.descriptor)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._made: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"cdc_views.{_ROW}"))

    def rows(self, table: pa.Table) -> Iterator[bytes]:
        """Yield each row; what is null is not set, and an empty array is one.

        Raises `UnsupportedError` for an array that holds null, which BigQuery refuses to store.
        """
        for record in _micros(table).to_pylist():
            row = self._made()
            _fill(row, list(self.schema), record)
            yield row.SerializeToString(deterministic=True)


def _micros(table: pa.Table) -> pa.Table:
    """The table with instants as µs, exact."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _message(name: str, fields: list[pa.Field]) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name=name)
    for number, field in enumerate(fields, start=1):
        kind, label = field.type, _Field.LABEL_OPTIONAL
        if pa.types.is_list(kind):
            kind, label = kind.value_type, _Field.LABEL_REPEATED
        added = made.field.add(name=field.name, number=number, label=label)
        if pa.types.is_struct(kind):
            nested = f"Of{number}"
            made.nested_type.append(_message(nested, list(kind)))
            added.type, added.type_name = _Field.TYPE_MESSAGE, nested
        elif pa.types.is_list(kind):
            raise UnsupportedError(
                f"column {field.name!r} holds lists within lists, and BigQuery has no ARRAY of ARRAY",
                remedy="leave the column out of the schema file",
            )
        else:
            added.type = next(of for fits, of in _SCALARS if fits(kind))
    return made


def _fill(message: Any, fields: list[pa.Field], record: dict[str, Any]) -> None:
    for field in fields:
        value = record[field.name]
        if value is None:
            continue
        if pa.types.is_list(field.type):
            _extend(message, field, value)
        elif pa.types.is_struct(field.type):
            target = getattr(message, field.name)
            target.SetInParent()
            _fill(target, list(field.type), value)
        else:
            setattr(message, field.name, _plain(field.type, value))


def _extend(message: Any, field: pa.Field, values: list[Any]) -> None:
    target, kind = getattr(message, field.name), field.type.value_type
    for value in values:
        if value is None:
            raise UnsupportedError(
                f"an array of column {field.name!r} holds null, which BigQuery stores in none",
                remedy="leave the column out of the schema file, or land into Delta tables",
            )
        if pa.types.is_struct(kind):
            _fill(target.add(), list(kind), value)
        else:
            target.append(_plain(kind, value))


def _plain(kind: pa.DataType, value: Any) -> Any:
    return str(value) if pa.types.is_decimal(kind) else value
