"""Native values as `SELECT JSON` prints them. Source: Cassandra 5.0, `AbstractType.toJSONString`, read as a description."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from cdc_views.model.types import EMPTY, INTEGER_BITS, Kind, LogicalType, MapOf, Scalar, SequenceOf, TupleOf, Udt
from cdc_views.rules.codec.times import date_text, datetime_text, duration_text, time_text, timestamp_text
from cdc_views.rules.codec.wholes import digits_of

JsonRow = Mapping[str, str]  # column → JSON text

_ESCAPES = re.compile(r"\\u00[0-9a-f]{2}")


def quote(text: str) -> str:
    """Return `text` as a JSON string, escaped as Java's JSON writers do (upper-case hex, no other escapes)."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPES.sub(lambda found: "\\u" + found[0][2:].upper(), quoted) if "\\u" in quoted else quoted


def json_text(value: Any) -> str:
    """Return parsed JSON as compact JSON text; numbers stay as they were."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(json_text(item) for item in value) + "]"
    if isinstance(value, str):
        return quote(value)
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def to_json(kind: LogicalType, value: Any) -> str:
    """Return the JSON text of a native value: `null` for None, and for NaN and infinities, which JSON lacks; `""` for `EMPTY`."""
    return _text(kind, value, _PRINT)


def to_shown(kind: LogicalType, value: Any) -> str:
    """Return a value's text in tables and CSV: its JSON text, but NaN and infinities by name, and JSON's own null in quotes.

    >>> to_shown(Scalar(Kind.DOUBLE), float("-inf")), to_shown(Scalar(Kind.JSON), "null"), to_shown(Scalar(Kind.JSON), None)
    ('-Infinity', '"null"', 'null')
    """
    text = _text(kind, value, _SHOW)
    return quote(text) if text == "null" and value is not None else text


_Printers = Mapping[Kind, Callable[[Any], str]]


def _text(kind: LogicalType, value: Any, printers: _Printers) -> str:
    if value is None:
        return "null"
    if value is EMPTY:
        return '""'
    if isinstance(kind, Scalar):
        return printers[kind.kind](value)
    match kind:
        case SequenceOf():
            return "[" + ", ".join(_text(kind.element, item, printers) for item in value) + "]"
        case MapOf():
            pairs = ((_key(kind.key, k, printers), _text(kind.value, v, printers)) for k, v in value)
            return "{" + ", ".join(f"{key}: {shown}" for key, shown in pairs) + "}"
        case TupleOf():
            return "[" + ", ".join(_text(field, item, printers) for field, item in zip(kind.fields, value, strict=True)) + "]"
        case Udt():
            fields = zip(kind.fields, value, strict=True)
            return "{" + ", ".join(f"{_field_name(n)}: {_text(field, item, printers)}" for (n, field), item in fields) + "}"
    raise TypeError(f"no JSON for {kind!r}")


def _key(kind: LogicalType, value: Any, printers: _Printers) -> str:
    text = _text(kind, value, printers)
    return text if text.startswith('"') else quote(text)


def _field_name(name: str) -> str:
    # SELECT JSON keeps the quotes that CQL needs for a field name (UserType.toJSONString)
    return quote(name if name == name.lower() else f'"{name}"')


def java_double(value: float, *, single: bool = False) -> str:
    """Return a finite float as Java's `Double.toString` (or `Float.toString`) writes it: `1.0`, `1.0E10`."""
    digits = repr(_shortest_float32(value)) if single else repr(value)
    _, number, exponent = Decimal(digits).as_tuple()
    text = "".join(map(str, number)).lstrip("0") or "0"
    point = len(text) + int(exponent) if text != "0" else 1
    text = text.rstrip("0") or "0"
    prefix = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return prefix + "0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{prefix}0.{'0' * -point}{text}"
        whole, fraction = text[:point].ljust(point, "0"), text[point:] or "0"
        return f"{prefix}{whole}.{fraction}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _shortest_float32(value: float) -> float:
    """Return the double with the fewest digits that rounds to the same 32-bit float."""
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        try:
            if struct.pack(">f", short) == struct.pack(">f", value):
                return short
        except OverflowError:
            continue
    return value


def _float(*, single: bool, names: Mapping[str, str]) -> Callable[[float], str]:
    return lambda value: java_double(value, single=single) if math.isfinite(value) else names[str(value)]


_AS_NULL = dict.fromkeys(("nan", "inf", "-inf"), "null")
_BY_NAME = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _json_document(value: str) -> str:
    """Return a `json` value as nested JSON; text that is not JSON, as a string."""
    try:
        json.loads(value)
    except ValueError:
        return quote(value)
    return value.replace("\n", " ")


_PRINT: dict[Kind, Callable[[Any], str]] = {
    Kind.ASCII: quote,
    Kind.TEXT: quote,
    Kind.JSON: _json_document,
    Kind.BLOB: lambda value: f'"0x{value.hex()}"',
    Kind.BOOLEAN: lambda value: "true" if value else "false",
    Kind.DATE: lambda value: f'"{date_text(value)}"',
    Kind.TIME: lambda value: f'"{time_text(value)}"',
    Kind.TIMESTAMP: lambda value: f'"{timestamp_text(value)}"',
    Kind.DATETIME: lambda value: f'"{datetime_text(value)}"',
    Kind.INSTANT: lambda value: f'"{datetime_text(value)}Z"' if isinstance(value, int) else quote(value),
    Kind.DURATION: lambda value: f'"{duration_text(value)}"',
    Kind.DECIMAL: lambda value: str(value) if value.is_finite() else quote(str(value)),
    Kind.FLOAT: _float(single=True, names=_AS_NULL),
    Kind.DOUBLE: _float(single=False, names=_AS_NULL),
    Kind.UUID: lambda value: f'"{value}"',
    Kind.TIMEUUID: lambda value: f'"{value}"',
    Kind.INET: quote,
    **dict.fromkeys(INTEGER_BITS, str),
    Kind.VARINT: digits_of,
}
_SHOW = _PRINT | {Kind.FLOAT: _float(single=True, names=_BY_NAME), Kind.DOUBLE: _float(single=False, names=_BY_NAME)}
