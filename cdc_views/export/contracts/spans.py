"""Service levels that are spans of time: `30m` in a project file, a value and a unit in a contract."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

SPANS = {"freshness": "fresh_within", "latency": "lag_within"}
"""Property of a service level → the data test that it is."""
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}


def span_parts(span: str) -> dict[str, Any]:
    """Return value and unit of a span; the unit is a word, since `m` may be months.

    >>> span_parts("30m")
    {'value': 30, 'unit': 'minutes'}
    """
    return {"value": int(span[:-1]), "unit": _UNITS[span[-1]]}


def span_of(level: Mapping[str, Any]) -> str:
    """Return the span of a service level; raises `ValueError` with the reason where it has none in whole seconds.

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
