"""Commits that lose against others': Delta and BigQuery let one of two writers through, and the other begins anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from cdc_views.errors import TransientError

ATTEMPTS = 20
"""How often work is begun before it is given up; others have committed before it each time."""
_T = TypeVar("_T")


class ConflictError(TransientError):
    """Another writer committed first; nothing was written, and what is there must be looked at again."""


def retried(
    attempt: Callable[[], _T], *, what: str, on: type[Exception] = ConflictError, attempts: int = ATTEMPTS, pause: float = 0.0
) -> _T:
    """Return the result of `attempt`, which is called again each time it raises `on`.

    Args:
        attempt: Reads what is there, and commits what follows from it.
        what: The message once all attempts have failed: what was being written, and what to do.
        on: The error that another attempt may get past; any other one is raised at once.
        attempts: How many calls there are at most.
        pause: Seconds between the first two calls; twice as many before each one after.

    Raises:
        ConflictError: Every attempt raised `on`; the last one is the cause.
    """
    for number in range(1, attempts):
        try:
            return attempt()
        except on:
            time.sleep(pause * 2 ** (number - 1))
    try:
        return attempt()
    except on as error:
        raise ConflictError(what) from error
