"""Arrow types of raw tables as DuckDB writes them."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from cdc_views.sql.dialects.base import identifier

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


@lru_cache(maxsize=4096)  # asked for each column of each file of a state
def type_text(kind: pa.DataType) -> str:
    """Return the DuckDB type of `kind`; names in structs are physical ones, quoted all the same.

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
    """Whether DuckDB reads `stored` as `expected`; a type that raw tables do not have is another one."""
    try:
        return type_text(stored) == type_text(expected)
    except KeyError:
        return False


@lru_cache(maxsize=4096)
def quoted(name: str) -> str:
    """Return an identifier as DuckDB takes it."""
    return str(identifier(name).sql(dialect="duckdb"))


def literal(text: str) -> str:
    """Return a text as DuckDB takes it."""
    return "'" + text.replace("'", "''") + "'"
