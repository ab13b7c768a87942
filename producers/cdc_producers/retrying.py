"""Pauses between attempts."""

from __future__ import annotations

from collections.abc import Iterator

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0


def pauses(first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> Iterator[float]:
    """Yield the seconds before each next attempt: doubled each time, up to `longest`."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)
