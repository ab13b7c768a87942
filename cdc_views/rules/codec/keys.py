"""Keys as users name them: a JSON text, or its parsed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_views.errors import MalformedEventError, UnknownColumnError, UsageError
from cdc_views.model.schema import Column, TableSchema
from cdc_views.rules.codec.jsonread import from_json, parse_json


def parse_key(schema: TableSchema, key: Mapping[str, Any] | str) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Return native (partition, clustering); clustering None where only the partition columns are given."""
    try:
        given = parse_json(key) if isinstance(key, str) else dict(key)
    except MalformedEventError as error:
        raise UsageError(f"the key is {error}; a JSON object such as {_example(schema)} was expected") from error
    if not isinstance(given, dict):
        raise UsageError(f"the key is {key!r}; a JSON object such as {_example(schema)} was expected")
    names = [column.name for column in schema.row_key]
    for name in given:
        if name not in names:
            raise UnknownColumnError(table=f"the key of {schema.full_name}", column=name, known=names)
    has_clustering = any(column.name in given for column in schema.clustering) or not schema.clustering
    wanted = schema.row_key if has_clustering else schema.partition
    for column in wanted:
        if column.name not in given:
            raise UsageError(f"the key lacks {column.name!r}; a JSON object such as {_example(schema)} was expected")
    values = [_key_value(schema, column, given[column.name]) for column in wanted]
    size = len(schema.partition)
    return tuple(values[:size]), tuple(values[size:]) if has_clustering else None


def _key_value(schema: TableSchema, column: Column, given: Any) -> Any:
    try:
        return from_json(column.type, given)
    except MalformedEventError as error:
        raise UsageError(f"the key of {schema.full_name}: {column.name!r}: {error}") from error


def _example(schema: TableSchema) -> str:
    return "{" + ", ".join(f'"{column.name}": …' for column in schema.row_key) + "}"
