"""When a state merges and splits its files, set small for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from cdc_views.state import sizes


def set_sizes(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Change some of the sizes in use until the test ends."""
    monkeypatch.setattr(sizes, "SIZES", replace(sizes.SIZES, **changes))


@contextmanager
def with_sizes(**changes: Any) -> Iterator[None]:
    """Change some of the sizes in use in this block."""
    with pytest.MonkeyPatch.context() as patch:
        set_sizes(patch, **changes)
        yield
