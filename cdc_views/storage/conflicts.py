"""Commits that lose to others: Delta and BigQuery let one of two writers through; the other starts again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from cdc_views.errors import TransientError

ATTEMPTS = 20  # how often work starts before it is given up because others committed first each time
_T = TypeVar("_T")


class ConflictError(TransientError):
    """Another writer committed first; nothing was written, and the caller must read the current data again."""


def retried(
    attempt: Callable[[], _T], *, what: str, on: type[Exception] = ConflictError, attempts: int = ATTEMPTS, pause: float = 0.0
) -> _T:
    """Return the result of `attempt`, which is called again each time it raises `on`, at most `attempts` times in all.

    `attempt` reads the current data and commits what follows from it. `pause` is in seconds, between the first two calls; it
    doubles before each further call. Other errors are raised at once. If all calls fail, raises `ConflictError`, caused by the
    last error, with the message `what`: what was being written, and what to do.
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
