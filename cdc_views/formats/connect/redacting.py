"""Policies of columns in records of Kafka Connect: lines, envelopes of `{schema, payload}`, rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cdc_views.formats.connect.record import is_line
from cdc_views.formats.redaction import EventColumns, UnlocatedError

_PLACE = ("topic", "destination", "partition", "offset", "epoch", "timestamp")
_BLOCK = frozenset({"type", "field", "name", "optional", "version", "items", "keys", "values", "fields", "parameters"})
_PARAMETERS = frozenset({"scale", "length", "connect.decimal.precision"})
_IMAGES = frozenset({"before", "after"})
Apply = Callable[[Any, EventColumns], Any]


def redacted_record(document: Any, columns: EventColumns, *, value: Apply) -> Any:
    """Return an event, bare or in a line, with `value` applied to its value. Raises `UnlocatedError`."""
    return redacted_line(document, columns, value=value) if is_line(document) else _opened(document, columns, value)


def redacted_line(document: Mapping[str, Any], columns: EventColumns, *, value: Apply, key: Apply | None = None) -> Any:
    """Return a `{key, value, …}` line with `value` applied to its value and `key` (else `redacted_key`) to its key."""
    if isinstance(document.get("_problem"), str):
        raise UnlocatedError("the message could not be read")
    found = members(document, _PLACE)
    found["key"] = _opened(document["key"], columns, key or redacted_key)
    return found | {"value": _opened(document["value"], columns, value)}


def redacted_key(key: Any, columns: EventColumns) -> Any:
    """Return a record's key: an object of columns, or the value of the only key column; null if it is neither."""
    if isinstance(key, dict):
        return columns.row(key)
    return columns.key(key) if len(columns.schema.row_key) == 1 and not isinstance(key, list) else None


def members(found: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the members of these names that are no objects."""
    return {name: found[name] for name in names if name in found and not isinstance(found[name], dict)}


def image(found: Any, columns: EventColumns, *, takes_extra: bool = False) -> Any:
    """Return a row that may be null; raises `UnlocatedError` if it is neither."""
    if found is None:
        return None
    if not isinstance(found, dict):
        raise UnlocatedError("a row is no object")
    return columns.row(found, takes_extra=takes_extra)


def _opened(document: Any, columns: EventColumns, apply: Apply) -> Any:
    if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
        return apply(document, columns)
    schema = document["schema"]
    if schema is not None and not (isinstance(schema, dict) and "type" in schema):
        raise UnlocatedError("its schema is none")
    payload = apply(document["payload"], columns)
    return {"schema": None if schema is None else _declared(schema, columns), "payload": payload}


def _declared(schema: Mapping[str, Any], columns: EventColumns) -> dict[str, Any]:
    """Return a schema of rows or of an envelope: without defaults and texts, and without columns that have a policy."""
    fields = schema.get("fields")
    entries = [entry for entry in fields if isinstance(entry, dict)] if isinstance(fields, list) else []
    is_envelope = any(entry.get("field") in _IMAGES and entry.get("type") == "struct" for entry in entries)
    found = _block(schema)
    if not is_envelope:
        found["fields"] = _of_columns(entries, columns)
        return found
    found["fields"] = [
        {**_block(entry), "fields": _of_columns(entry.get("fields"), columns)} if entry.get("field") in _IMAGES else _block(entry)
        for entry in entries
    ]
    return found


def _of_columns(entries: Any, columns: EventColumns) -> list[Any]:
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [_block(entry) for entry in listed if columns.policy(str(entry.get("field"))) is None]


def _block(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a schema that are read; a default is a value, and an enum's texts are values."""
    found = {name: part for name, part in schema.items() if name in _BLOCK}
    if isinstance(found.get("fields"), list):
        found["fields"] = [_block(entry) for entry in found["fields"] if isinstance(entry, dict)]
    for part in ("items", "keys", "values"):
        if isinstance(found.get(part), dict):
            found[part] = _block(found[part])
    parameters = found.pop("parameters", None)
    if isinstance(parameters, dict):
        found["parameters"] = {name: text for name, text in parameters.items() if name in _PARAMETERS}
    return found
