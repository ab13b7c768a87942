"""Reports errors to Sentry if `SENTRY_DSN` is set.

A report is built here part by part, not by the client's integrations. It has the kinds of errors, their places in this program,
and their messages without any quoted or bracketed text, because a source or target repeats values of rows there. Of errors that
are not this project's it has only kind and place. It never has the values of environment variables that hold secrets.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any

from cdc_views.errors import CdcViewsError, UsageError
from cdc_views.model.extras import needs
from cdc_views.model.secrets import without_secrets

DSN_VARIABLE = "SENTRY_DSN"
_FLUSHED_WITHIN = 2.0
_LONGEST, _LONGEST_CHAIN = 500, 5
_VALUES = re.compile(r"""(?P<quote>['"`]).*(?:(?P=quote)|\Z)|\(.*(?:\)|\Z)|(?<=://)[^/@\s]+@""", re.DOTALL)
"""From the first quote or bracket to the last of its kind: a value may hold both."""


@dataclass
class Reports:
    """Reports of one producer, if it has a `client` (Sentry's). The same error is reported again after `again_after` seconds."""

    source: str
    client: Any = None
    environment: Mapping[str, str] = field(default_factory=dict)
    again_after: float = 300.0
    _reported: dict[tuple[str, str], float] = field(default_factory=dict)

    def error(self, error: BaseException, *, part: str, is_fatal: bool = False) -> None:
        """Report an error of a part of the producer (`source`, `target`, a table), unless the same kind was just reported."""
        if self.client is None or not self._is_due(part, type(error).__name__):
            return
        chain: list[dict[str, Any]] = []
        seen: BaseException | None = error
        while seen is not None and len(chain) < _LONGEST_CHAIN:
            chain.append(self._described(seen))
            seen = seen.__cause__
        # Sentry lists the cause first
        self._send({"exception": {"values": chain[::-1]}}, part=part, level="fatal" if is_fatal else "error")

    def quarantined(self, table: str, count: int) -> None:
        """Report that events went to quarantine; the quarantine and the log have the reasons."""
        if self.client is not None and self._is_due(table, "quarantined"):
            text = f"{count} events went to quarantine; `cdc-views replay` lands them after a repair"
            self._send({"message": {"formatted": text}}, part=table, level="warning")

    def _is_due(self, part: str, kind: str) -> bool:
        now = time.monotonic()
        if now - self._reported.get((part, kind), -self.again_after) < self.again_after:
            return False
        self._reported[part, kind] = now
        return True

    def _send(self, event: Mapping[str, Any], *, part: str, level: str) -> None:
        tags = {"source": self.source, "part": part}
        self.client.capture_event({**event, "level": level, "logger": "cdc_producers", "tags": tags})

    def _described(self, error: BaseException) -> dict[str, Any]:
        frames = [
            {"filename": os.path.basename(frame.f_code.co_filename), "module": frame.f_globals.get("__name__", ""),
             "function": frame.f_code.co_name, "lineno": line}
            for frame, line in walk_tb(error.__traceback__)
        ]  # fmt: skip
        value = self.without_values(str(error)) if isinstance(error, CdcViewsError) else "its text is left out"
        return {"type": type(error).__name__, "value": value, "stacktrace": {"frames": frames}}

    def without_values(self, text: str) -> str:
        """Return a message without quoted text, bracketed text and secrets of the environment."""
        return _VALUES.sub("…", without_secrets(text, self.environment))[:_LONGEST]


@contextmanager
def reporting(source: str, environment: Mapping[str, str], *, transport: Any = None) -> Iterator[Reports]:
    """Yield reports to Sentry, or to nobody without `SENTRY_DSN`; at the end, send what is under way.
    Raises `UsageError` if the value is not a DSN or sentry-sdk is not installed.
    """
    dsn = environment.get(DSN_VARIABLE)
    if not dsn:
        yield Reports(source)
        return
    client = _client(dsn, transport)
    try:
        yield Reports(source, client, environment)
    finally:
        client.close(timeout=_FLUSHED_WITHIN)


def _client(dsn: str, transport: Any) -> Any:
    with needs(DSN_VARIABLE, extra="producers"):
        import sentry_sdk
        from sentry_sdk.utils import BadDsn
    try:
        return sentry_sdk.Client(
            dsn, transport=transport, default_integrations=False, auto_enabling_integrations=False, max_breadcrumbs=0,
            include_local_variables=False, include_source_context=False, auto_session_tracking=False,
            send_client_reports=False,
        )  # fmt: skip
    except BadDsn:
        raise UsageError(f"{DSN_VARIABLE} is no DSN of Sentry; https://KEY@HOST/PROJECT was expected") from None
