"""Which runs of a test `make test` makes, and which only `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def often(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return parameters of which `make test` takes `kept`, and `make test-long` all."""
    return [value if value in kept else _of_long(value) for value in values]


def _of_long(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
