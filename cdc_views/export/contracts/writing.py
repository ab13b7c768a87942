"""A project's tables as a contract: promises to readers of the views, types part by part, and rules that `validate` tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import yaml
from sqlglot import exp

from cdc_views.engines.duckdb.types import type_text
from cdc_views.engines.serving import column_types
from cdc_views.export.contracts.document import VENDOR, WRITTEN, check_types_are_known
from cdc_views.export.contracts.source import PROPERTY, source_form
from cdc_views.export.exporting import ROLES, grain, mark_of, sentence
from cdc_views.model.schema import Column, Role, TableSchema
from cdc_views.model.severity import Severity
from cdc_views.model.types import Kind, ListOf, LogicalType, MapOf, Scalar, SetOf, TupleOf, Udt, VectorOf
from cdc_views.quality.conditions import never_null
from cdc_views.rules.oracle import compares_as_keys
from cdc_views.sql.dialects import dialect
from cdc_views.storage.stores import is_url

if TYPE_CHECKING:
    from cdc_views.operations.context import TableContext

COMMAND = "cdc-views contract export"
INVARIANTS = {
    "sample_equals_oracle": "Sampled partitions show what the rules of reconciliation make of their raw events.",
    "deletions_are_kept": "No deletion is lost that could let deleted data come back.",
    "nothing_deleted_is_kept": "Nothing is kept that a deletion covers.",
    "files_are_whole.raw": "The files of the raw table are those that its log names.",
}
"""Checks that always run and concern readers; of deletions only if there is a state."""

SPANS = {"freshness": "fresh_within", "latency": "lag_within"}
"""Property of a service level → key of its data test."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
_MEANT = {
    "fresh_within": "Events landed within this span before now.",
    "lag_within": "What landed longer ago than this span is in the state that the view reads.",
}
_VECTOR_ELEMENTS = {pa.float32(): "float32", pa.float64(): "float64"}
_FORMATS = {Kind.UUID: "uuid", Kind.TIMEUUID: "uuid", Kind.BLOB: "binary"}
"""The content of a column that is shown as text or bytes."""


def contract_yaml(document: dict[str, Any]) -> str:
    """Return the text of a contract file, which is the same on every run."""
    return f"# {mark_of(COMMAND)}\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def contract_of(tables: Sequence[TableContext], *, version: str, name: str = "") -> dict[str, Any]:
    """Return the contract of some tables of a project, at least one; `name` is a table's if the contract is only about that.

    Raises `UnsupportedError` as `check_types_are_known` does, `UnknownColumnError` if a data test names an unknown column.
    """
    project = tables[0].project
    check_types_are_known(project)
    found: dict[str, Any] = {
        "apiVersion": WRITTEN,
        "kind": "DataContract",
        "id": ":".join((VENDOR, project.config.name, *([name] if name else []))),
        "name": name or project.config.name,
        "version": version,
        "status": "active",
        "description": {
            "purpose": "The latest row of every key, merged from change events.",
            "usage": "Read the views. What raw tables and state hold is no part of this contract.",
        },
        "servers": [_server(tables)],
        "schema": [object_of(table) for table in tables],
    }
    levels = [level for table in tables for level in _levels(table)]
    return found | ({"slaProperties": levels} if levels else {})


def _server(tables: Sequence[TableContext]) -> dict[str, Any]:
    """Return the place of the views, without other parts of an address: user, password, query."""
    config = tables[0].project.config
    place = config.warehouse
    if is_url(place):
        parts = urlsplit(place)
        place = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    return {"server": config.name, **tables[0].project.engine_plugin.server(place)}


def object_of(table: TableContext) -> dict[str, Any]:
    """Return the schema object of a table: its view."""
    schema, config = table.schema, table.config
    of_columns, of_rows = _quality(table)
    shown = column_types(table.relation, field_name=str)
    properties = [_property(table, column, shown[column.name], of_columns.get(column.name, [])) for column in schema.columns]
    return {
        "name": table.name,
        "physicalName": f"{config.keyspace}.{config.view_name}" if config.keyspace else config.view_name,
        "physicalType": "view",
        "logicalType": "object",
        "description": f"{sentence(schema.description)}The latest row of every key of {table.name}.",
        "dataGranularityDescription": grain(schema),
        "customProperties": [{"property": PROPERTY, "value": source_form(schema), "vendor": VENDOR}, *_policies(table)],
        "properties": properties,
        "quality": [_one_row_per_key(schema), *of_rows, *map(_invariant, INVARIANTS)],
    }


def _policies(table: TableContext) -> list[dict[str, Any]]:
    """Return what is stored of columns, those that are left out among them."""
    policies = table.config.policies
    found = {name: one.policy.value for name, one in policies.columns.items()}
    named = [("columnPolicies", found), ("extraColumns", policies.extra.value)] if policies else []
    return [{"property": name, "value": value, "vendor": VENDOR} for name, value in named if value]


def _property(table: TableContext, column: Column, shown: pa.DataType, quality: list[dict[str, Any]]) -> dict[str, Any]:
    schema = table.schema
    target = dialect(table.project.config.engine).sqlglot_name
    found: dict[str, Any] = {"name": column.name, "description": column.description or f"{ROLES[column.role]}, {column.type}"}
    if column.name in table.config.policies.columns:
        found["transformDescription"] = f"Shows {table.config.policies.columns[column.name].shown}."
    found |= _type_parts(column.type, shown, dialect=target)
    if column.is_key:
        found |= {"primaryKey": True, "primaryKeyPosition": schema.row_key.index(column) + 1}
    if column.role is Role.PARTITION:
        found |= {"partitioned": True, "partitionKeyPosition": schema.partition.index(column) + 1}
    if never_null(schema, column) or any(rule.get("metric") == "nullValues" and rule["severity"] == "error" for rule in quality):
        found["required"] = True
    if is_unique(schema, column):
        found["unique"] = True
    return found | ({"quality": quality} if quality else {})


def is_unique(schema: TableSchema, column: Column) -> bool:
    """Return whether the column alone is the key, as SQL compares it."""
    return schema.row_key == (column,) and compares_as_keys(schema)


def _custom(implementation: dict[str, Any]) -> dict[str, Any]:
    return {"type": "custom", "engine": VENDOR, "implementation": implementation}


def _one_row_per_key(schema: TableSchema) -> dict[str, Any]:
    rule = {"name": "one_row_per_key", "description": "Each key has one row.", "dimension": "uniqueness", "severity": "error"}
    if not compares_as_keys(schema):
        return rule | _custom({"check": "one_row_per_key"})
    keys = [column.name for column in schema.row_key]
    return rule | {"metric": "duplicateValues", "arguments": {"properties": keys}, "mustBe": 0}


def _invariant(name: str) -> dict[str, Any]:
    rule = {"name": name, "description": INVARIANTS[name], "dimension": "accuracy", "severity": "error"}
    return rule | _custom({"check": name})


def _quality(table: TableContext) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
    of_columns: dict[str, list[dict[str, Any]]] = {}
    of_rows = []
    for test in table.config.tests:
        rule = {"name": test.name} if test.name is not None else {}
        if test.column is not None:
            column = table.schema.column(test.column).name
            asked = {"metric": "invalidValues", "arguments": {"validValues": list(test.one_of or ())}, "mustBe": 0}
            said = {"metric": "nullValues", "mustBe": 0} if test.not_null else asked
            of_columns.setdefault(column, []).append(rule | said | {"severity": test.severity.value})
        elif test.holds is not None or test.truth is not None:
            said = test.model_dump(include={"holds", "truth", "as_of"}, exclude_none=True)
            of_rows.append(rule | _custom(said) | {"severity": test.severity.value})
    return of_columns, of_rows


def _levels(table: TableContext) -> list[dict[str, Any]]:
    found = []
    for test in table.config.tests:
        for level, key in SPANS.items():
            if (span := getattr(test, key)) is None:
                continue
            said = {"name": test.name, "severity": test.severity.value if test.severity is not Severity.ERROR else None}
            ours = [{"property": name, "value": value, "vendor": VENDOR} for name, value in said.items() if value is not None]
            entry = {"property": level, **span_parts(span), "element": table.name, "description": _MEANT[key]}
            found.append(entry | ({"customProperties": ours} if ours else {}))
    return found


def _type_parts(kind: LogicalType, shown: pa.DataType, *, dialect: str) -> dict[str, Any]:
    """Return the keys of a property that describe its type; `kind` is in the source, `shown` in the view in `dialect`."""
    found: dict[str, Any] = {"logicalType": _logical(kind, shown), "physicalType": _physical(shown, dialect)}
    if options := _options(kind, shown):
        found["logicalTypeOptions"] = options
    if found["logicalType"] == "map":
        key, value = (_type_parts(part, seen, dialect=dialect) for part, seen in _sides(kind, shown))
        found["map"] = {"key": key, "value": value}
    elif found["logicalType"] == "array":
        found["items"] = _items(kind, shown, dialect)
    elif found["logicalType"] == "object":
        fields = _fields(kind)
        found["properties"] = [
            {"name": shown.field(i).name, **_type_parts(part, shown.field(i).type, dialect=dialect)}
            for i, part in enumerate(fields)
        ]
    return found


def _physical(shown: pa.DataType, dialect: str) -> str:
    text = type_text(shown)
    return text if dialect == "duckdb" else exp.DataType.build(text, dialect="duckdb").sql(dialect=dialect)


def _logical(kind: LogicalType, shown: pa.DataType) -> str:
    if isinstance(kind, VectorOf) and shown.value_type in _VECTOR_ELEMENTS:
        return "vector"
    checks = (
        (pa.types.is_map, "map"),
        (pa.types.is_list, "array"),
        (pa.types.is_struct, "object"),
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "integer"),
        (pa.types.is_floating, "number"),
        (pa.types.is_decimal, "number"),
        (pa.types.is_timestamp, "timestamp"),
        (pa.types.is_date, "date"),
    )
    return next((name for is_one, name in checks if is_one(shown)), "string")


def _options(kind: LogicalType, shown: pa.DataType) -> dict[str, Any]:
    if isinstance(kind, VectorOf):
        element = _VECTOR_ELEMENTS.get(shown.value_type)
        return {"dimensions": kind.size, "elementType": element} if element else {}
    if pa.types.is_integer(shown):
        return {"format": f"i{shown.bit_width}"}
    if pa.types.is_floating(shown):
        return {"format": f"f{shown.bit_width}"}
    if pa.types.is_timestamp(shown):
        return {"timezone": shown.tz is not None}
    return {"format": _FORMATS[kind.kind]} if isinstance(kind, Scalar) and kind.kind in _FORMATS else {}


def _sides(kind: LogicalType, shown: pa.DataType) -> tuple[tuple[LogicalType, pa.DataType], ...]:
    assert isinstance(kind, MapOf)
    if pa.types.is_map(shown):
        return ((kind.key, shown.key_type), (kind.value, shown.item_type))
    return ((kind.key, shown.value_type.field("key").type), (kind.value, shown.value_type.field("value").type))


def _items(kind: LogicalType, shown: pa.DataType, dialect: str) -> dict[str, Any]:
    match kind:
        case ListOf() | SetOf() | VectorOf():
            return _type_parts(kind.element, shown.value_type, dialect=dialect)
        case MapOf():  # an array of entries, for keys that no engine's map can hold
            sides = zip(("key", "value"), _sides(kind, shown), strict=True)
            parts = [{"name": name, **_type_parts(part, seen, dialect=dialect)} for name, (part, seen) in sides]
            return {"logicalType": "object", "physicalType": _physical(shown.value_type, dialect), "properties": parts}
    raise TypeError(f"{kind} has no items")


def _fields(kind: LogicalType) -> tuple[LogicalType, ...]:
    match kind:
        case TupleOf():
            return kind.fields
        case Udt():
            return tuple(part for _, part in kind.fields)
    raise TypeError(f"{kind} has no fields")


def span_parts(span: str) -> dict[str, Any]:
    """Return value and unit of a span; the unit is a word, since `m` might mean months.

    >>> span_parts("30m")
    {'value': 30, 'unit': 'minutes'}
    """
    return {"value": int(span[:-1]), "unit": _UNITS[span[-1]]}


def span_of(level: Mapping[str, Any]) -> str:
    """Return the span of a service level; raises `ValueError` with the reason if it is not in whole seconds.

    >>> span_of({"value": 1.5, "unit": "h"})
    '5400s'
    """
    unit = str(level.get("unit") or "").lower()
    if unit not in _SECONDS:
        raise ValueError(f"its unit {level.get('unit')!r} is none of seconds, minutes, hours, days and weeks (m may be months)")
    try:
        value = Decimal(str(level.get("value")))
    except InvalidOperation:
        value = Decimal(-1)
    letter = {1: "s", 60: "m", 3_600: "h", 86_400: "d"}.get(_SECONDS[unit])
    if value >= 0 and value == int(value) and letter is not None:
        return f"{int(value)}{letter}"
    seconds = value * _SECONDS[unit]
    if not seconds.is_finite() or seconds < 0 or seconds != int(seconds):
        raise ValueError(f"its value {level.get('value')!r} is no span of whole seconds")
    return f"{int(seconds)}s"
