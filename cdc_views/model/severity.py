"""The severity of data tests."""

from __future__ import annotations

from enum import Enum


class Severity(str, Enum):
    """How much a failed data test matters. `--fail-on` decides which ones make the command fail."""

    WARNING = "warning"
    ERROR = "error"
