"""The shape of `after` in Debezium's Cassandra events: cells by column, and the bounds of a range deletion.

Reads two layouts: the connector's own JSON, and RECORD columns of Connect's BigQuery sink, in rows exported as JSON
(names sanitized, numbers as text, null members left out).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.formats.connect.hints import Binary, Hints
from cdc_views.formats.connect.record import mapping, member, string
from cdc_views.formats.connect.values import named
from cdc_views.model.naming import sanitized
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import Kind, Scalar
from cdc_views.rules.codec.jsonread import from_json, parse_json
from cdc_views.rules.codec.times import parse_micros
from cdc_views.rules.facts import Bound

_START, _END = "_range_start", "_range_end"


@dataclass(frozen=True, slots=True)
class Image:
    """`after`: the columns that were set, each an object with `value` (may be null), and the ends of a range deletion."""

    cells: Mapping[str, Mapping[str, Any]]
    keys: frozenset[str]
    start: Any
    end: Any


def read_image(after: Mapping[str, Any], schema: TableSchema) -> Image:
    """Return the image of an event's `after`; raises `MalformedEventError` if a column is not a `{value, …}` object."""
    cells = {}
    names = {sanitized(column.name): column.name for column in schema.columns}
    for name, found in after.items():
        if found is None or (name in (_START, _END) and not schema.has(name)):
            continue
        plain = name if schema.has(name) else names.get(name, name)
        cell = mapping(found, what=f"column {name!r}")
        if cell.get("set") not in (False, "false"):
            cells[plain] = {**cell, "value": cell.get("value")}
    keys = frozenset(column.name for column in schema.row_key)
    return Image(cells, keys, *(None if schema.has(name) else after.get(name) for name in (_START, _END)))


def read_bound(end: Any, schema: TableSchema, *, side: str) -> Bound:
    """Return the START or END of a range deletion; `INCL_END_EXCL_START_BOUNDARY`, between two ranges, is read for `side`."""
    bound = mapping(end, what=f"_range_{side.lower()}")
    method = string(member(bound, "method", what="a range's end"), what="a range's method")
    found = re.search(rf"(INCL|EXCL)_{side}(_|$)", method)
    if found is None:
        raise MalformedEventError(f"a range's method is {method!r} where INCL_{side}_BOUND or EXCL_{side}_BOUND was expected")
    values = bound.get("values") or []
    if not isinstance(values, list) or len(values) > len(schema.clustering):
        raise MalformedEventError(f"a range's values are not a prefix of the clustering columns of {schema.full_name}")
    prefix = tuple(_bound_value(column, value) for column, value in zip(schema.clustering, values, strict=False))
    return Bound(prefix, found[1] == "INCL" or not prefix)


def _bound_value(column: Column, entry: Any) -> Any:
    value = mapping(entry, what="a range's value")
    if value.get("name") not in (column.name, sanitized(column.name)):
        raise MalformedEventError(f"a range names {value.get('name')!r} where clustering column {column.name!r} was expected")
    return _printed_value(column, string(value.get("value"), what=f"the range's {column.name!r}"))


def _printed_value(column: Column, text: str) -> Any:
    """Return the native value of a text of `AbstractType.getString`; nested types must be JSON: other texts are ambiguous."""
    kind = column.type
    if not isinstance(kind, Scalar):
        return from_json(kind, parse_json(text))
    if kind.kind is Kind.TIMESTAMP and not text.lstrip("-").isdecimal():
        try:
            return parse_micros(text) // 1000
        except ValueError as error:
            raise MalformedEventError(f"{column.name!r}: {error}") from error
    return named(column.name, kind, text, hints=Hints(binary=Binary.HEX))[0]
