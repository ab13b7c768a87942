"""Rows that `query` wrote as Parquet or Delta, as the text that it prints of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cdc_views.model.types import EMPTY, Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.plan.serving import serving_names
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.codec.physical import from_physical
from cdc_views.rules.codec.row_texts import jsonl_texts
from cdc_views.sql.dialects.times import DAYS_LIMIT, YEARS
from cdc_views.table import Table
from helpers.dialect_cases import Friendly
from helpers.spark_views import shown_rows

_SHOWN = Friendly(range(YEARS[0] * 10**6, (YEARS[1] + 1) * 10**6), range(-DAYS_LIMIT, DAYS_LIMIT + 1))
_ZERO = re.compile(r"-0\.0(?!\d)")
"""DuckDB's `max` of structs forgets the sign of a zero; and of equal keys a state has the spelling of one (rule K1)."""
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)\.(\d{9})")


def lines_of(table: Table, written: pa.Table, columns: Iterable[str] = ()) -> list[str]:
    """The lines of `--format jsonl` that written columns mean, sorted."""
    names, kinds = serving_names(table.schema), _kinds(table, columns)
    assert written.column_names == [names[name] for name in kinds]
    schema = _schema_of(table, kinds)
    shown = shown_rows(written.rename_columns(list(kinds)), schema)
    return _lines(kinds, ({name: _native(kind, row[name]) for name, kind in kinds.items()} for row in shown))


def expected_of(table: Table, *, columns: Iterable[str] = (), **asked: Any) -> list[str]:
    """The lines that `query` prints, sorted; what no native column holds (a value of 0 bytes, an infinite date) as null."""
    kinds = _kinds(table, columns)
    rows = table.query(columns=list(kinds), **asked).rows()
    return _lines(kinds, ({name: _held(kind, row[name]) for name, kind in kinds.items()} for row in rows))


def _kinds(table: Table, columns: Iterable[str]) -> dict[str, LogicalType]:
    names = list(columns) or [column.name for column in table.schema.columns]
    return {name: table.schema.column(name).type for name in names}


def _schema_of(table: Table, kinds: dict[str, LogicalType]) -> Any:
    class Some:
        columns = tuple(table.schema.column(name) for name in kinds)

    return Some


def _lines(kinds: dict[str, LogicalType], rows: Iterable[dict[str, Any]]) -> list[str]:
    texts = ({name: to_json(kind, row[name]) for name, kind in kinds.items()} for row in rows)
    return sorted(_ZERO.sub("0.0", line) for line in jsonl_texts(list(kinds), texts))


def _held(kind: LogicalType, value: Any) -> Any:
    """A native value, with null for each part that a native column cannot hold."""
    if value is None or value is EMPTY:
        return None
    match kind:
        case Scalar():
            return None if _SHOWN(kind, value) is None else value
        case ListOf() | SetOf() | VectorOf():
            return tuple(_held(kind.element, item) for item in value)
        case MapOf():
            return tuple((_held(kind.key, k), _held(kind.value, v)) for k, v in value)
        case TupleOf():
            return tuple(_held(part, item) for part, item in zip(kind.fields, value, strict=True))
        case Udt():
            return tuple(_held(part, item) for (_, part), item in zip(kind.fields, value, strict=True))
    raise TypeError(kind)


def _native(kind: LogicalType, value: Any) -> Any:
    """The native value of one that `shown_rows` returned."""
    if value is None:
        return None
    match kind:
        case Scalar(kind=Kind.TIMESTAMP):
            return value // 1000
        case Scalar(kind=Kind.TIME):
            found = _TIME.fullmatch(value)
            assert found is not None, value
            hours, minutes, seconds, nanos = map(int, found.groups()[1:])
            whole = ((hours * 60 + minutes) * 60 + seconds) * 10**9 + nanos
            return -whole if found[1] else whole
        case Scalar():
            return from_physical(kind, value)
        case ListOf() | SetOf() | VectorOf():
            return tuple(_native(kind.element, item) for item in value)
        case MapOf():
            return tuple((_native(kind.key, entry["key"]), _native(kind.value, entry["value"])) for entry in value)
        case TupleOf():
            return tuple(_native(part, value[f"f{i}"]) for i, part in enumerate(kind.fields))
        case Udt():
            return tuple(_native(part, value[name]) for name, part in kind.fields)
    raise TypeError(kind)
