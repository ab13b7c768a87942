"""Policies of columns in `cassandra-mutation/1`: cells have a value and its bytes, keys have values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cdc_views.errors import CdcViewsError
from cdc_views.formats.redaction import EventColumns, UnlocatedError
from cdc_views.model.column_policies import ColumnPolicy, Policy
from cdc_views.model.types import LogicalType
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.codec.jsontext import to_json
from cdc_views.rules.codec.serialized import deserialize

_PLACE = ("format", "node", "segment", "position", "keyspace", "table")
_CLOCKS = ("written", "ttl", "expires_at", "deleted_at")


def redacted_mutation(document: Any, columns: EventColumns) -> dict[str, Any]:
    """Return a mutation with policies applied; raises `UnlocatedError` if it has a member that the format has not."""
    if isinstance(document, dict) and "unreadable" in document:
        raise UnlocatedError("the mutation could not be read")
    parts: dict[str, Callable[[Any], Any]] = {
        **dict.fromkeys(_PLACE, _plain),
        "partition": lambda key: _key(key, columns),
        "partition_deletion": _clocks,
        "rows": lambda rows: [_row(row, columns) for row in _array(rows)],
    }
    return _members(document, parts, "the event")


def _row(row: Any, columns: EventColumns) -> dict[str, Any]:
    cells: Callable[[Any], Any] = lambda found: [  # noqa: E731
        kept for cell in _array(found) if (kept := _cell(cell, columns)) is not None
    ]
    parts: dict[str, Callable[[Any], Any]] = {
        "kind": _plain,
        "clustering": lambda key: _key(key, columns),
        "liveness": _clocks,
        "deletion": _clocks,
        "cells": cells,
        "start": lambda bound: _bound(bound, columns),
        "end": lambda bound: _bound(bound, columns),
    }
    return _members(row, parts, "a row")


def _bound(bound: Any, columns: EventColumns) -> dict[str, Any]:
    return _members(bound, {"clustering": lambda key: _key(key, columns), "inclusive": _plain}, "a bound")


def _key(key: Any, columns: EventColumns) -> dict[str, Any]:
    if not isinstance(key, dict):
        raise UnlocatedError("a key is no object")
    return columns.row(key, takes_extra=False) | _unknown(key, columns)


def _unknown(members: Mapping[str, Any], columns: EventColumns) -> dict[str, Any]:
    """Return the members that the schema lacks, for the reader to refuse; raises `UnlocatedError`."""
    found = {name: value for name, value in members.items() if not columns.schema.has(name) and columns.policy(name) is None}
    columns.check_unknown(found)
    return found


def _cell(cell: Any, columns: EventColumns) -> dict[str, Any] | None:
    """Return a cell; None if its column is left out."""
    name = cell.get("column") if isinstance(cell, dict) else None
    if not isinstance(name, str):
        raise UnlocatedError("a cell has no column")
    parts: dict[str, Callable[[Any], Any]] = {"column": _plain, "deletion": _clocks, **dict.fromkeys(_CLOCKS, _plain)}
    policy = columns.policy(name)
    if policy is None:
        _unknown({name: cell.get("value"), f"{name}.path": cell.get("path")} if not columns.schema.has(name) else {}, columns)
        return _members(cell, parts | dict.fromkeys(("path", "value", "bytes"), _as_is), "a cell")
    if policy.policy is Policy.LEAVE_OUT:
        return None
    if "path" in cell:
        raise UnlocatedError(f"a cell of column {name!r} has a path")
    found = _members({part: cell[part] for part in cell if part not in ("value", "bytes")}, parts, "a cell")
    if "deleted_at" not in cell and ("value" in cell or "bytes" in cell):
        found["value"] = _value(policy, cell, columns)
    return found


def _value(policy: ColumnPolicy, cell: Mapping[str, Any], columns: EventColumns) -> Any:
    """Return what is stored in place of a cell's value: of its JSON, which its bytes give where it is missing or null."""
    value = cell.get("value")
    if value is None and cell.get("bytes") is not None:
        value = _of_bytes(columns.schema.column(cell["column"]).type, cell["bytes"]) if columns.schema.has(cell["column"]) else ""
    return columns.value(policy, value)


def _of_bytes(kind: LogicalType, digits: Any) -> Any:
    try:
        found = parse_json(to_json(kind, deserialize(kind, bytes.fromhex(digits))))
    except (CdcViewsError, ValueError, TypeError) as error:
        raise UnlocatedError("the bytes of a cell are no value of its column") from error
    return digits if found is None else found  # NaN and infinities


def _members(body: Any, parts: Mapping[str, Callable[[Any], Any]], what: str) -> dict[str, Any]:
    if not isinstance(body, dict) or not body.keys() <= parts.keys():
        raise UnlocatedError(f"{what} is no object, or has an unknown member")
    return {name: parts[name](value) for name, value in body.items()}


def _clocks(deletion: Any) -> Any:
    return _members(deletion, dict.fromkeys(_CLOCKS, _plain), "a deletion")


def _plain(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise UnlocatedError("a value is an object or an array where none was expected")
    return value


def _as_is(value: Any) -> Any:
    return value


def _array(value: Any) -> Iterable[Any]:
    if not isinstance(value, list):
        raise UnlocatedError("an array was expected")
    return value
