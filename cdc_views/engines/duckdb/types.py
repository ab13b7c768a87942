"""Arrow types of raw tables, identifiers and texts in DuckDB's SQL."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from sqlglot import exp

from cdc_views.sql.dialects.writing import identifier

_SCALARS = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.string_view(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
    pa.binary_view(): "BLOB",
    pa.timestamp("us", tz="UTC"): "TIMESTAMPTZ",
    pa.timestamp("us"): "TIMESTAMP",
    pa.date32(): "DATE",
}


@lru_cache(maxsize=4096)  # called for each column of each file of a state
def type_text(kind: pa.DataType) -> str:
    """Return the DuckDB type of `kind`, with quoted names of fields.

    >>> type_text(pa.list_(pa.struct([("key", pa.int32())])))
    'STRUCT("key" INTEGER)[]'
    """
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return f"STRUCT({', '.join(f'{quoted(field.name)} {type_text(field.type)}' for field in fields)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind):
        return f"{type_text(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"MAP({type_text(kind.key_type)}, {type_text(kind.item_type)})"
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _SCALARS[kind]


def is_same_type(stored: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether DuckDB reads `stored` as `expected`; false for a type that raw tables never have."""
    try:
        return type_text(stored) == type_text(expected)
    except KeyError:
        return False


@lru_cache(maxsize=4096)
def quoted(name: str) -> str:
    """Return a quoted identifier."""
    return str(exp.Identifier(this=identifier(name).this, quoted=True).sql(dialect="duckdb"))


def literal(text: str) -> str:
    """Return a quoted text."""
    return "'" + text.replace("'", "''") + "'"
