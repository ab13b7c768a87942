"""The log on standard error: plain lines, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_views.errors import UsageError, did_you_mean

LOG_FORMATS = ("text", "json")


class Log:
    """Writes log lines; `format` is one of `LOG_FORMATS`."""

    def __init__(self) -> None:
        """Start with text."""
        self.format = "text"

    def use(self, name: str) -> None:
        """Change the format; raises `UsageError` for an unknown one."""
        if name not in LOG_FORMATS:
            raise UsageError(f"--log-format is {name!r}{did_you_mean(name, LOG_FORMATS)}")
        self.format = name

    def info(self, message: str, **facts: Any) -> None:
        """Log what was done."""
        self._write("info", message, facts)

    def warning(self, message: str, **facts: Any) -> None:
        """Log what deserves attention."""
        self._write("warning", message, facts)

    def error(self, message: str, **facts: Any) -> None:
        """Log why the command ends."""
        self._write("error", message, facts)

    def _write(self, level: str, message: str, facts: dict[str, Any]) -> None:
        if self.format == "json":
            line = json.dumps({"level": level, "message": message, **facts}, ensure_ascii=False, default=str)
        else:
            line = message if level == "info" else f"{level}: {message}"
        # one write: several threads log
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


log = Log()
"""The log of this process."""


@contextmanager
def quietly() -> Iterator[None]:
    """Keep a library's own logs and warnings off standard error: what matters is in what it returns."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
