"""How each dialect's view shows values: see `Friendly`."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa

from cdc_views.model.types import EMPTY, Kind, LogicalType, Scalar
from cdc_views.rules.codec.physical import arrow_type, to_physical
from helpers.dialect_cases import Friendly
from helpers.dialect_postgres import plain
from helpers.values import float32

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_YEARS = range(-62_135_596_800_000_000, 253_402_300_800_000_000)
_DAYS = range(-719_162, 2_932_897)
"""Years 1 to 9999."""
_TO_1900, _TO_2300 = 2_208_988_800_000_000, 10_413_792_000_000_000


class _ClickHouse(Friendly):
    def normal(self, kind: Any, value: Any) -> Any:
        if isinstance(value, bytes) and kind != Scalar(Kind.BLOB):
            return value.decode()
        return super().normal(kind, value)


class _Postgres(Friendly):
    """Frozen collections, tuples and user types show as they are stored; JSON has no bytes and no null arrays here."""

    def __call__(self, kind: LogicalType, value: Any) -> Any:
        if value is None or value is EMPTY:
            return None
        if isinstance(kind, Scalar) or kind.is_multicell:
            return super().__call__(kind, value)
        return plain(to_physical(kind, value)) or None

    def _scalar(self, kind: Kind, value: Any) -> Any:
        return plain(value) if kind is Kind.BLOB else super()._scalar(kind, value)

    def normal(self, kind: LogicalType, value: Any) -> Any:
        if value is None or value == []:
            return None
        if isinstance(kind, Scalar):
            return _scalar(kind.kind, value)
        return super().normal(kind, value) if kind.is_multicell else _stored(arrow_type(kind), value)


def _stored(kind: pa.DataType, value: Any) -> Any:
    """A nested value as Arrow would give it, floats as floats."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_stored(kind.value_type, item) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _stored(field.type, value[field.name]) for field in kind}
    if pa.types.is_floating(kind) and math.isfinite(float(value)):
        return float32(float(value)) if pa.types.is_float32(kind) else float(value)
    return str(float(value)) if pa.types.is_floating(kind) else value


def _scalar(kind: Kind, value: Any) -> Any:
    match kind:
        case Kind.FLOAT:
            return float32(float(value)) if math.isfinite(float(value)) else float(value)
        case Kind.DOUBLE:
            return float(value)
        case Kind.TIMESTAMP | Kind.DATETIME | Kind.INSTANT if isinstance(value, str):
            at = datetime.fromisoformat(value)
            since = (at if at.tzinfo else at.replace(tzinfo=timezone.utc)) - _EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case Kind.DATE if isinstance(value, str):
            return (date.fromisoformat(value) - _EPOCH.date()).days
    return value


SHOWN: dict[str, Friendly] = {
    "bigquery": Friendly(_YEARS, _DAYS, nulls_are_empty=True),
    "clickhouse": _ClickHouse(
        range(-2_208_988_800_000_000, 10_413_792_000_000_000), range(-25_567, 120_530), nulls_are_empty=True
    ),
    "postgres": _Postgres(_YEARS, _DAYS, nulls_are_empty=True),
    "trino": Friendly(_YEARS, _DAYS),
}
"""By dialect; DuckDB's and Spark's views are compared by tests/semantics and tests/commands."""
