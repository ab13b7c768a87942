"""Avro's JSON encoding of unions and bytes, as Bottled Water sent rows of PostgreSQL."""

from __future__ import annotations

from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Kind, ListOf, LogicalType, Scalar, SetOf, VectorOf
from cdc_views.rules.codec.jsonread import parse_json

_BRANCHES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map", "fixed", "enum"})


def plain_row(schema: TableSchema, document: Any) -> Any:
    """Return a key or row with the unions around it and around its columns opened; anything else as it is.

    A member of one name that is an Avro type, or a dotted record name, is a union's branch, unless the column's
    own type is an object that could have such a member.
    """
    opened = _open(document) if not _has_column(schema, document) else document
    if not isinstance(opened, dict):
        return opened
    return {name: _column(schema, name, value) for name, value in opened.items()}


def _has_column(schema: TableSchema, document: Any) -> bool:
    return isinstance(document, dict) and any(schema.has(name) for name in document)


def _column(schema: TableSchema, name: str, value: Any) -> Any:
    if not schema.has(name) or not _could_be_union(schema.column(name).type, value):
        return value
    if isinstance(value, dict) and set(value) in ({"bytes"}, {"fixed"}):
        return _bytes(next(iter(value.values())))
    opened = _open(value)
    if isinstance(opened, dict):
        return _record_text(opened)
    return [_open(item) for item in opened] if isinstance(opened, list) else opened


def _could_be_union(kind: LogicalType, value: Any) -> bool:
    if kind == Scalar(Kind.JSON):
        return isinstance(value, dict) and value.keys() == {"string"} and _is_json(value["string"])
    return isinstance(kind, Scalar | ListOf | SetOf | VectorOf)


def _is_json(text: Any) -> bool:
    # a JSON column may well hold {"string": "x"} itself; one that holds JSON in a text there is a union
    if not isinstance(text, str):
        return False
    try:
        parse_json(text)
    except MalformedEventError:
        return False
    return True


def _open(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if name in _BRANCHES or "." in name:
            return inner
    return value


def _bytes(text: Any) -> str:
    """The hex of bytes that Avro wrote as characters of those codes."""
    try:
        return f"0x{text.encode('latin-1').hex()}"
    except (AttributeError, UnicodeEncodeError) as error:
        raise MalformedEventError(f"{str(text)[:40]!r} is not Avro's text of bytes") from error


_DATE = ("year", "month", "day")
_TIME = ("hour", "minute", "second")


def _record_text(record: dict[str, Any]) -> Any:
    """ISO text of Bottled Water's records of dates and times (year, month, day, hour, minute, second, micro)."""
    has_date, has_time = (all(isinstance(record.get(part), int) for part in parts) for parts in (_DATE, _TIME))
    day = "{:04d}-{:02d}-{:02d}".format(*(record[part] for part in _DATE)) if has_date else ""
    clock = "{:02d}:{:02d}:{:02d}".format(*(record[part] for part in _TIME)) if has_time else ""
    micro = record.get("micro")
    if clock and isinstance(micro, int):
        clock += f".{micro:06d}"
    return " ".join(part for part in (day, clock) if part) or record
