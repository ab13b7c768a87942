"""How generated documents call the roles of columns and the grain of a table's rows, the same in all of them."""

from __future__ import annotations

from cdc_views.schema import Role, TableSchema

ROLES = {Role.PARTITION: "partition key", Role.CLUSTERING: "clustering key", Role.STATIC: "static", Role.REGULAR: "regular"}


def grain(schema: TableSchema) -> str:
    """Return what one row of a table's view stands for, as a sentence."""
    statics = ", and one per partition that has only live static columns" if schema.statics else ""
    return f"One row per ({', '.join(column.name for column in schema.row_key)}){statics}."
