"""Native values as Arrow columns of the types people expect.

======================================  =================================================
logical type                            Arrow type
======================================  =================================================
integers, float, double, boolean, text  the same
decimal of a declared size              decimal128 (`types.Scalar.decimal_size`)
other decimals, varint                  string, or what `columns:` of the project file asks for
timestamp, instant                      timestamp[ms, UTC], timestamp[us, UTC]
datetime, date, time                    timestamp[us], date32, time64[ns] (relational time: string)
uuid, timeuuid, inet, duration, json    string
list, set, vector                       list
map                                     map
tuple, user type                        struct (f0, f1, …; field names)
======================================  =================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import pyarrow as pa
from sqlglot import exp

from cdc_views.errors import ConfigError
from cdc_views.model.overrides import parse_override, precision_and_scale
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.rules.codec.physical import arrow_type, to_physical

_ARROW = {
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.DOUBLE: pa.float64(),
    exp.DataType.Type.TEXT: pa.string(),
}
_FRIENDLY = {
    Kind.TIMESTAMP: pa.timestamp("ms", tz="UTC"),
    Kind.INSTANT: pa.timestamp("us", tz="UTC"),
    Kind.DATETIME: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
}
_NANOS_A_DAY = 86_400_000_000_000


def friendly_table(
    schema: TableSchema, rows: Iterable[Mapping[str, Any]], *, columns: Iterable[str], overrides: Mapping[str, str]
) -> pa.Table:
    """Return the rows as an Arrow table of user names and friendly types; raises `ConfigError` for a value that does not fit."""
    kept, names = list(rows), list(columns)
    arrays = [_array(name, schema.column(name).type, [row[name] for row in kept], overrides.get(name)) for name in names]
    return pa.Table.from_arrays(arrays, names=names)


def _array(name: str, kind: LogicalType, values: list[Any], wanted: str | None) -> pa.Array:
    if wanted is not None:
        return _overridden(name, values, wanted)
    if kind == Scalar(Kind.TIME) and all(value is None or value is EMPTY or 0 <= value < _NANOS_A_DAY for value in values):
        return pa.array([_plain(kind, value) for value in values], pa.int64()).cast(pa.time64("ns"))
    try:
        return pa.array([_plain(kind, value) for value in values], friendly_type(kind))
    except _Misfit as error:
        raise ConfigError(f"column {name!r}: {error}; update the schema file") from error


def _overridden(name: str, values: list[Any], wanted: str) -> pa.Array:
    kept = [None if value is None or value is EMPTY else value for value in values]
    try:
        kind = parse_override(wanted)
    except ValueError as error:
        raise ConfigError(f"column {name!r}: type {wanted!r} is not known; {error}") from error
    try:
        if kind.this is exp.DataType.Type.DECIMAL:
            precision, scale = precision_and_scale(kind)
            numbers = [None if value is None else _of_size(value, (precision, scale)) for value in kept]
            return pa.array(numbers, pa.decimal128(precision, scale))
        texts = pa.array([None if value is None else str(value) for value in kept], pa.string())
        return texts.cast(_ARROW[kind.this])
    except (pa.ArrowException, _Misfit) as error:
        raise ConfigError(f"column {name!r}: a value does not fit {wanted} ({error}); widen it under `columns:`") from error


def override_type(kind: exp.DataType) -> pa.DataType:
    """Return the Arrow type of an entry of `columns:` in the project file, parsed by `model.overrides`."""
    return pa.decimal128(*precision_and_scale(kind)) if kind.this is exp.DataType.Type.DECIMAL else _ARROW[kind.this]


class _Misfit(Exception):
    """A number has more digits than its type."""


def _of_size(value: Any, size: tuple[int, int]) -> Decimal:
    precision, scale = size
    exact = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return Decimal(value).quantize(Decimal(1).scaleb(-scale), context=exact)
    except (Inexact, InvalidOperation) as error:
        raise _Misfit(f"{value} does not fit decimal({precision}, {scale})") from error


def friendly_type(kind: LogicalType) -> pa.DataType:
    """Return the Arrow type of a logical type, as in the module's table."""
    match kind:
        case Scalar():
            if kind.decimal_size is not None:
                return pa.decimal128(*kind.decimal_size)
            return _FRIENDLY.get(kind.kind, arrow_type(kind))
        case ListOf() | SetOf() | VectorOf():
            return pa.list_(friendly_type(kind.element))
        case MapOf():
            return pa.map_(friendly_type(kind.key), friendly_type(kind.value))
        case TupleOf():
            return pa.struct([pa.field(f"f{i}", friendly_type(part)) for i, part in enumerate(kind.fields)])
        case Udt():
            return pa.struct([pa.field(name, friendly_type(part)) for name, part in kind.fields])
    raise TypeError(f"no Arrow type for {kind!r}")


def _plain(kind: LogicalType, value: Any) -> Any:
    if value is None or value is EMPTY:
        return None
    match kind:
        case Scalar() if kind.decimal_size is not None:
            return _of_size(value, kind.decimal_size)
        case ListOf() | SetOf() | VectorOf():
            return [_plain(kind.element, item) for item in value]
        case MapOf():
            return [(_plain(kind.key, k), _plain(kind.value, v)) for k, v in value if k is not EMPTY]
        case TupleOf():
            return {f"f{i}": _plain(part, item) for i, (part, item) in enumerate(zip(kind.fields, value, strict=True))}
        case Udt():
            return {name: _plain(part, item) for (name, part), item in zip(kind.fields, value, strict=True)}
    return to_physical(kind, value)
