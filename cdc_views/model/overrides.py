"""`columns:` of the project file: other types in which a view and `to_arrow` show single columns."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_views.model.schema import Column
from cdc_views.model.types import MOST_DIGITS, Kind, Scalar

_TYPES = {
    exp.DataType.Type.TINYINT: "tinyint",
    exp.DataType.Type.SMALLINT: "smallint",
    exp.DataType.Type.INT: "int",
    exp.DataType.Type.BIGINT: "bigint",
    exp.DataType.Type.DOUBLE: "double",
    exp.DataType.Type.TEXT: "text",
    exp.DataType.Type.DECIMAL: "decimal(18,2)",
}
_INTEGERS = {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.VARINT}
_FRACTIONS = {Kind.DECIMAL, Kind.TEXT, Kind.ASCII}
_FRACTIONAL = {exp.DataType.Type.DECIMAL, exp.DataType.Type.DOUBLE, exp.DataType.Type.TEXT}


def parse_override(text: str) -> exp.DataType:
    """Return the type that `text` names; raises `ValueError` with the known types.

    >>> parse_override("decimal(18, 2)").sql()
    'DECIMAL(18, 2)'
    """
    expected = f"one of these types was expected: {', '.join(_TYPES.values())}"
    try:
        found = exp.DataType.build(text, dialect="duckdb")
    except SqlglotError as error:
        raise ValueError(expected) from error
    if found.this not in _TYPES or (found.expressions and found.this is not exp.DataType.Type.DECIMAL):
        raise ValueError(expected)
    if found.this is exp.DataType.Type.DECIMAL:
        # DuckDB would read a bare `decimal` as decimal(18,3), Spark as decimal(10,0)
        precision_and_scale(found if "(" in text else exp.DataType(this=found.this))
    return found


def precision_and_scale(kind: exp.DataType) -> tuple[int, int]:
    """Return (precision, scale) of a decimal; raises `ValueError` if one is missing or out of range."""
    sizes = [size.name for size in kind.expressions]
    if len(sizes) == 2 and all(size.isdecimal() for size in sizes):
        precision, scale = int(sizes[0]), int(sizes[1])
        if 1 <= precision <= MOST_DIGITS and scale <= precision:
            return precision, scale
    raise ValueError(f"a precision of up to {MOST_DIGITS} digits and a scale were expected, as in decimal(18,2)")


def misfit(column: Column, text: str) -> str:
    """Return why a column cannot be shown as the type `text`; empty if it can. A view would round a decimal that does not fit.

    >>> misfit(Column("price", Scalar(Kind.DECIMAL, scale=4)), "decimal(18,2)")
    'has 4 digits after the point, which decimal(18,2) would round'
    """
    if column.is_key:
        return "is part of the key, which stays as it is"
    if not isinstance(column.type, Scalar) or column.type.kind not in _INTEGERS | _FRACTIONS:
        return f"is of type {column.type}, which stays as it is; integers, decimals and texts can be shown as another type"
    wanted = parse_override(text)
    if column.type.kind in _FRACTIONS and wanted.this not in _FRACTIONAL:
        return f"is of type {column.type}, whose fractions {text} would round; name a decimal"
    own = column.type.scale
    if own is not None and wanted.this is exp.DataType.Type.DECIMAL and own > precision_and_scale(wanted)[1]:
        return f"has {own} digits after the point, which {text} would round"
    return ""
