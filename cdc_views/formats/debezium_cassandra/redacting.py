"""Policies of columns in events of Debezium's Cassandra connector."""

from __future__ import annotations

from typing import Any

from cdc_views.formats.connect.redacting import members
from cdc_views.formats.debezium.notices import is_notice
from cdc_views.formats.debezium.redacting import envelope_parts
from cdc_views.formats.redaction import EventColumns, UnlocatedError
from cdc_views.model.column_policies import Policy

_ENDS = ("_range_start", "_range_end")
_CELL = ("deletion_ts", "set")
_VALUE = ("name", "value", "type")


def redacted_value(value: Any, columns: EventColumns) -> Any:
    """Return an event's value without its envelope; raises `UnlocatedError`."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise UnlocatedError("the event is no object")
    if is_notice(value):
        return value  # nothing of it is stored
    if not isinstance(value.get("source"), dict) or not isinstance(value.get("after"), dict):
        raise UnlocatedError("the event has no source, or no row")
    return envelope_parts(value) | {"after": _cells(value["after"], columns)}


def _cells(row: dict[str, Any], columns: EventColumns) -> dict[str, Any]:
    after: dict[str, Any] = {}
    for name, found in row.items():
        policy = columns.policy(name)
        if name in _ENDS and not columns.schema.has(name):
            after[name] = None if found is None else _bound(found, columns)
        elif policy is None:
            if not columns.schema.has(name):
                columns.check_unknown({name: found})
            after[name] = found
        elif policy.policy is not Policy.LEAVE_OUT:
            if found is not None and not isinstance(found, dict):
                raise UnlocatedError(f"column {name!r} is no object")
            after[name] = None if found is None else {**members(found, _CELL), "value": columns.value(policy, found.get("value"))}
    return after


def _bound(found: Any, columns: EventColumns) -> dict[str, Any]:
    """Return the end of a range; a clustering column, which alone it may name, has no policy."""
    values = found.get("values") if isinstance(found, dict) else []
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in values or ()):
        raise UnlocatedError("the end of a range is none")
    if any(columns.policy(str(one.get("name"))) is not None for one in values or ()):
        raise UnlocatedError("the end of a range names a column that is no clustering column")
    return {**members(found, ["method"]), "values": [members(one, _VALUE) for one in values or ()]}
