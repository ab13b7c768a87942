"""GoogleSQL's values and types as BigQuery's REST API writes them."""

from __future__ import annotations

import base64
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

from zetasql.wasi._pb2.zetasql.public import type_pb2 as types

_EXACT = Context(prec=80)
Columns = list[tuple[str, Any]]
_NAMES = {
    types.TYPE_INT64: "INTEGER",
    types.TYPE_DOUBLE: "FLOAT",
    types.TYPE_BOOL: "BOOLEAN",
    types.TYPE_STRING: "STRING",
    types.TYPE_BYTES: "BYTES",
    types.TYPE_DATE: "DATE",
    types.TYPE_DATETIME: "DATETIME",
    types.TYPE_TIME: "TIME",
    types.TYPE_TIMESTAMP: "TIMESTAMP",
    types.TYPE_NUMERIC: "NUMERIC",
    types.TYPE_BIGNUMERIC: "BIGNUMERIC",
    types.TYPE_JSON: "JSON",
}
_KINDS = {name: kind for kind, name in _NAMES.items()} | {
    "INT64": types.TYPE_INT64,
    "FLOAT64": types.TYPE_DOUBLE,
    "BOOL": types.TYPE_BOOL,
}


class ResultError(Exception):
    """A result that BigQuery refuses to write."""


def field(name: str, kind: Any, description: str = "") -> dict[str, Any]:
    """Return a column as the API describes it."""
    found: dict[str, Any] = {"name": name, "mode": "NULLABLE"}
    if description:
        found["description"] = description
    if kind.type_kind == types.TYPE_ARRAY:
        found["mode"], kind = "REPEATED", kind.array_type.element_type
    if kind.type_kind == types.TYPE_STRUCT:
        fields = [field(part.field_name, part.field_type) for part in kind.struct_type.field]
        return found | {"type": "RECORD", "fields": fields}
    return found | {"type": _NAMES[kind.type_kind]}


def kind_of(found: dict[str, Any]) -> Any:
    """Return the type of a column that the API describes."""
    kind = types.TypeProto()
    inner = kind
    if found.get("mode") == "REPEATED":
        kind.type_kind = types.TYPE_ARRAY
        inner = kind.array_type.element_type
    if found["type"] in ("RECORD", "STRUCT"):
        inner.type_kind = types.TYPE_STRUCT
        inner.struct_type.SetInParent()
        for part in found["fields"]:
            inner.struct_type.field.add(field_name=part["name"]).field_type.CopyFrom(kind_of(part))
    else:
        inner.type_kind = _KINDS[found["type"]]
    return kind


def has_null_element(found: Any) -> bool:
    """Whether some array holds a null, which BigQuery cannot store."""
    if isinstance(found, dict):
        return any(map(has_null_element, found.values()))
    return isinstance(found, list) and any(item is None or has_null_element(item) for item in found)


def row(columns: Columns, cells: Any, *, micros: bool) -> dict[str, Any]:
    """Return one row of a result; instants are µs, or seconds with a fraction."""
    found = zip(columns, cells, strict=True)
    return {"f": [{"v": value(cell, kind, micros=micros, name=name)} for (name, kind), cell in found]}


def value(cell: Any, kind: Any, *, micros: bool, name: str = "") -> Any:
    """Return one value; a null array becomes an empty one, and a null in an array is refused, as BigQuery does."""
    which = cell.WhichOneof("value")
    if kind.type_kind == types.TYPE_ARRAY:
        element = kind.array_type.element_type
        items = [value(item, element, micros=micros, name=name) for item in cell.array_value.element] if which else []
        if any(item is None for item in items):
            raise ResultError(f"Array cannot have a null element; error in writing field {name}")
        return [{"v": item} for item in items]
    if which is None:
        return None
    if kind.type_kind == types.TYPE_STRUCT:
        fields = [(part.field_name, part.field_type) for part in kind.struct_type.field]
        return row(fields, cell.struct_value.field, micros=micros)
    return _scalar(cell, which, micros=micros)


def _scalar(cell: Any, which: str, *, micros: bool) -> str:
    match which:
        case "int64_value" | "string_value" | "json_value":
            return str(getattr(cell, which))
        case "double_value":
            return _double(cell.double_value)
        case "bool_value":
            return "true" if cell.bool_value else "false"
        case "bytes_value":
            return base64.b64encode(cell.bytes_value).decode()
        case "date_value":
            return (date(1970, 1, 1) + timedelta(days=cell.date_value)).isoformat()
        case "timestamp_value":
            total = cell.timestamp_value.seconds * 10**6 + cell.timestamp_value.nanos // 1000
            return str(total) if micros else f"{total // 10**6}.{total % 10**6:06d}"
        case "datetime_value":
            return _datetime(cell.datetime_value)
        case "numeric_value" | "bignumeric_value":
            scaled = Decimal(int.from_bytes(getattr(cell, which), "little", signed=True))
            return f"{scaled.scaleb(-9 if which == 'numeric_value' else -38, _EXACT).normalize(_EXACT):f}"
    raise ResultError(f"the stand-in has no way to write {which}")


def _double(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(number)


def _datetime(packed: Any) -> str:
    fields = ((26, 14), (22, 4), (17, 5), (12, 5), (6, 6), (0, 6))
    parts = [packed.bit_field_datetime_seconds >> at & (1 << bits) - 1 for at, bits in fields]
    moment = datetime(*parts, microsecond=packed.nanos // 1000, tzinfo=timezone.utc)  # type: ignore[misc]
    return moment.replace(tzinfo=None).isoformat()
