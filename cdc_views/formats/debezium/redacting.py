"""Policies of columns in Debezium's events: images of rows, unwrapped rows, and what says where a row came from."""

from __future__ import annotations

from typing import Any

from cdc_views.formats.connect.redacting import image, members
from cdc_views.formats.debezium.notices import is_envelope, is_metadata, is_notice
from cdc_views.formats.redaction import EventColumns, UnlocatedError

CLOCKS = ("op", "ts_ms", "ts_us", "ts_ns")
_TRANSACTION = ("id", "total_order", "data_collection_order")
_SOURCE = (
    "version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "schema", "table", "keyspace", "keyspace_name",
    "table_name", "sequence", "txId", "lsn", "xmin", "server_id", "gtid", "file", "pos", "row", "thread", "cluster", "order",
)  # fmt: skip
"""Members of `source` that say where a row came from; `query`, the statement that wrote it, is none."""


def redacted_value(value: Any, columns: EventColumns) -> Any:
    """Return an event's value without its envelope; raises `UnlocatedError`."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise UnlocatedError("the event is no object")
    if is_notice(value):
        return value  # nothing of it is stored
    if not is_envelope(value):
        row = {name: found for name, found in value.items() if not name.startswith("__") or columns.schema.has(name)}
        of_event = [name for name in value if name not in row and is_metadata(name)]
        return columns.row(row, takes_extra=True) | members(value, of_event)
    found = envelope_parts(value)
    for name in ("before", "after"):
        if name in value:
            found[name] = image(value[name], columns, takes_extra=name == "after")
    return found


def envelope_parts(value: dict[str, Any]) -> dict[str, Any]:
    """Return an envelope without its images."""
    found = members(value, CLOCKS) | {"source": members(value["source"], _SOURCE)}
    if isinstance(value.get("transaction"), dict):
        found["transaction"] = members(value["transaction"], _TRANSACTION)
    return found
