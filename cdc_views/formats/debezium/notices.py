"""The kind of a Debezium message, and the table that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cdc_views.errors import MalformedEventError
from cdc_views.model.schema import TableSchema

_CLOCKS = {"ts_ms", "ts_us", "ts_ns"}
_TRANSACTION = {"status", "id", "event_count", "data_collections"}
_IMAGES = {"before", "after"}
_METADATA = (
    "op", "deleted", "table", "schema", "db", "lsn", "file", "pos", "row", "ts_ms", "ts_us", "connector", "name", "total_order",
)  # fmt: skip
_PREFIXED = re.compile(rf"__(?:source_|transaction_)?({'|'.join(_METADATA)})")


def is_envelope(value: Mapping[str, Any]) -> bool:
    """Whether a value is a change event with before and after images, and not an unwrapped row."""
    return isinstance(value.get("source"), dict) and bool(_IMAGES & value.keys() or "op" in value)


def is_notice(value: Mapping[str, Any]) -> bool:
    """Whether a value is not about rows: a heartbeat, a transaction's begin or end, a schema change, a message."""
    if value.keys() <= _CLOCKS and value:
        return True
    if value.keys() >= _TRANSACTION and value["status"] in ("BEGIN", "END"):
        return True
    is_schema_change = "source" in value and ("ddl" in value or "tableChanges" in value)
    is_message = value.get("op") == "m" and "message" in value
    return is_schema_change or is_message


def is_told_by_values(value: Mapping[str, Any]) -> bool:
    """Whether only the values show the kind of a message: one with the same names may be of another kind."""
    names = value.keys()
    is_row_or_envelope = "source" in names and bool((_IMAGES | {"op"}) & names) and not is_envelope(value)
    return names >= _TRANSACTION or {"op", "message"} <= names or is_row_or_envelope


def is_metadata(name: str) -> bool:
    """Whether a member of an unwrapped row is what `add.fields` added, and not a column."""
    return _PREFIXED.fullmatch(name) is not None


def split_metadata(value: Mapping[str, Any], schema: TableSchema) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (columns, metadata) of an unwrapped row.

    Metadata is what `add.fields` added: members that start with `__` and are no columns of the table, without their prefixes
    (`__lsn` and `__source_lsn` both become `lsn`).
    """
    row: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for name, found in value.items():
        if name.startswith("__") and not schema.has(name):
            plain = _PREFIXED.fullmatch(name)
            metadata[plain[1] if plain else name] = found
        else:
            row[name] = found
    return row, metadata


def check_source_table(source: Mapping[str, Any], schema: TableSchema) -> None:
    """Raise `MalformedEventError` if `source` is another table: `[db.]schema.table` (PostgreSQL), `db.table` (MySQL)."""
    database, namespace, table = (source.get(part) for part in ("db", "schema", "table"))
    if not isinstance(table, str):
        raise MalformedEventError("source has no 'table'")
    outer = [part for part in (database, namespace) if isinstance(part, str) and part]
    names = {".".join([*outer, table]), ".".join([*outer[-1:], table]), table if not schema.keyspace else ""}
    if schema.full_name not in names:
        raise MalformedEventError(f"an event of table {'.'.join([*outer[-1:], table])}, where {schema.full_name} was expected")


def check_row_table(metadata: Mapping[str, Any], schema: TableSchema) -> None:
    """Check the table like `check_source_table`, as far as an unwrapped event names it."""
    table, namespace = metadata.get("table"), metadata.get("schema") or metadata.get("db")
    found = ".".join(part for part in (namespace, table) if isinstance(part, str))
    if isinstance(table, str) and not f".{schema.full_name}".endswith(f".{found}"):
        raise MalformedEventError(f"an event of table {found}, where {schema.full_name} was expected")


def check_topic(topic: str, schema: TableSchema) -> None:
    """Raise `MalformedEventError` if a topic `….table`, all that a tombstone shows of its table, is another table's."""
    table = schema.full_name.rpartition(".")[2]
    if "." in topic and topic.rpartition(".")[2] != table:
        raise MalformedEventError(f"a deletion of topic {topic}, where table {schema.full_name} was expected")
