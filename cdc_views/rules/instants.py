"""Instants in the forms that people use: epoch seconds, ISO 8601, or a `datetime`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from cdc_views.errors import UsageError
from cdc_views.rules.codec.times import parse_micros

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECONDS = re.compile(r"[+-]?\d+\Z")
_SPAN = range(-(1 << 42), 253_402_300_800)  # to the year 9999; today's milliseconds, read as seconds, are past it

SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # unit of a span → seconds

Instant = int | str | datetime  # epoch seconds, their text, ISO 8601 or a datetime; UTC if it has no zone


def epoch_seconds(instant: Instant, *, option: str = "as_of") -> int:
    """Return whole seconds since the epoch, rounded down; raises `UsageError`, which names `option`, if it is not an instant.

    >>> epoch_seconds("2026-11-21T10:00:00.9+01:00")
    1795251600
    """
    if isinstance(instant, datetime):
        return micros(instant) // 1_000_000
    try:
        seconds = _seconds(str(instant).strip())
    except ValueError as error:
        raise UsageError(
            f"{option} is {instant!r}, which is no instant; "
            "epoch seconds (1795251600) or ISO 8601 (2026-11-21T09:00:00Z) was expected"
        ) from error
    if seconds not in _SPAN:
        raise UsageError(
            f"{option} is {instant!r}, out of range: after the year 9999 or long before history; "
            "note that it is in seconds, not milli- or microseconds"
        )
    return seconds


def epoch_micros(instant: Instant, *, option: str) -> int:
    """Return the instant's whole seconds in microseconds; raises as `epoch_seconds`.

    >>> epoch_micros("2026-11-21", option="landed_as_of")
    1795219200000000
    """
    return epoch_seconds(instant, option=option) * 1_000_000


def micros(now: datetime) -> int:
    """Return µs since the epoch; a time without a zone is UTC.

    >>> micros(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    aware = now if now.tzinfo else now.replace(tzinfo=timezone.utc)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def span_seconds(span: str, *, option: str, example: str, digits: int) -> int:
    """Return the seconds of a span `<int>(s|m|h|d)` of at most `digits` digits; raises `UsageError` with `option` and `example`.

    >>> span_seconds("2h", option="wait", example="1h", digits=6)
    7200
    """
    if not re.match(rf"\d{{1,{digits}}}[smhd]\Z", span):
        raise UsageError(f"{option} is {span!r}; a whole number and a unit was expected: s, m, h or d, as in {example}")
    return int(span[:-1]) * SECONDS_OF[span[-1]]


def _seconds(text: str) -> int:
    if _SECONDS.match(text):
        return int(text)
    if text.lower().endswith("infinity"):
        raise ValueError("not finite")
    return parse_micros(text.replace("t", " ").replace("z", "Z") if text.islower() else text) // 1_000_000
