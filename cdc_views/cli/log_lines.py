"""The form of a log line: one line whatever it holds, with a time, without secrets."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from cdc_views.model.secrets import without_secrets

_UNSEEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What ends a line, moves a terminal's cursor or turns the direction of text: a value with it could forge another line."""


def shown_time(instant: datetime) -> str:
    """Return an instant in UTC, ISO 8601, to the millisecond.

    >>> shown_time(datetime(2026, 11, 26, 16, 0, 0, 123456, tzinfo=timezone.utc))
    '2026-11-26T16:00:00.123Z'
    """
    return instant.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def text_line(text: str) -> str:
    r"""Return a text as one line, without secrets of the environment.

    >>> text_line("a\nb")
    'a\\nb'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), without_secrets(text, os.environ))


def json_line(instant: datetime, level: str, logger: str, message: str, facts: Mapping[str, Any]) -> str:
    """Return one JSON object: `time`, `level`, `logger`, `message`, then the facts; no fact takes the place of those four."""
    record = {"time": shown_time(instant), "level": level, "logger": logger, "message": without_secrets(message, os.environ)}
    more = {name: _plain(value) for name, value in facts.items() if name not in record}
    line = json.dumps(record | more, ensure_ascii=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _plain(value: Any) -> Any:
    """Return a value that JSON has; a number that JSON cannot write is null."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return shown_time(value)
    return without_secrets(str(value), os.environ)
