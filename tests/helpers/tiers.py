"""Which runs of a test `make test` makes, and which only `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def often(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return parameters of which `make test` takes `kept`, and `make test-long` all."""
    return [value if value in kept else pytest.param(value, marks=pytest.mark.slow) for value in values]
