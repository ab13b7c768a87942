"""What generated documents say of a table, the same in all of them: roles, grain, and what its key promises."""

from __future__ import annotations

from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.types import Kind, contains

ROLES = {Role.PARTITION: "partition key", Role.CLUSTERING: "clustering key", Role.STATIC: "static", Role.REGULAR: "regular"}


def grain(schema: TableSchema) -> str:
    """Return what one row of a table's view stands for, as a sentence."""
    statics = ", and one per partition that has only live static columns" if schema.statics else ""
    return f"One row per ({', '.join(column.name for column in schema.row_key)}){statics}."


def never_null(schema: TableSchema, column: Column) -> bool:
    """Whether the key says that a column has a value; a partition with live statics alone has no clustering (W3)."""
    return column.role is Role.PARTITION or (column.role is Role.CLUSTERING and not schema.statics)


def compares_as_keys(schema: TableSchema) -> bool:
    """Whether SQL tells keys apart as the source does: 0.0 and -0.0 are two keys to Cassandra and one to SQL."""
    return not any(contains(column.type, kind) for column in schema.row_key for kind in (Kind.FLOAT, Kind.DOUBLE))
