"""`retried`: work that others commit before is begun anew, and given up in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc_views.errors import EngineError, TransientError
from cdc_views.storage import conflicts
from cdc_views.storage.conflicts import ConflictError, retried


def failing(*errors: Exception) -> Callable[[], int]:
    """Return work that raises these, one each call, and then returns how many calls failed."""
    left = list(errors)

    def attempt() -> int:
        if left:
            raise left.pop(0)
        return len(errors)

    return attempt


def test_what_loses_is_begun_again() -> None:
    assert retried(failing(*[ConflictError("another")] * 19), what="given up") == 19


def test_it_gives_up_and_names_the_last_cause() -> None:
    errors = [ConflictError(f"number {number}") for number in range(3)]
    with pytest.raises(ConflictError, match="t: run it again") as raised:
        retried(failing(*errors), what="t: run it again", attempts=3)
    assert raised.value.__cause__ is errors[-1]
    assert isinstance(raised.value, TransientError)


def test_attempts_bound_the_calls() -> None:
    calls: list[int] = []

    def attempt() -> None:
        calls.append(1)
        raise ConflictError("another")

    with pytest.raises(ConflictError):
        retried(attempt, what="given up")
    assert len(calls) == conflicts.ATTEMPTS


def test_any_other_error_is_raised_at_once() -> None:
    work = failing(EngineError("disk full"), ConflictError("another"))
    with pytest.raises(EngineError, match="disk full"):
        retried(work, what="given up")
    with pytest.raises(ConflictError, match="another"):
        work()  # it was called once


def test_another_error_can_be_the_one_to_get_past() -> None:
    assert retried(failing(KeyError("k")), what="given up", on=KeyError) == 1


def test_pauses_double(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(conflicts.time, "sleep", slept.append)
    with pytest.raises(ConflictError):
        retried(failing(*[ConflictError("another")] * 4), what="given up", attempts=4, pause=0.5)
    assert slept == [0.5, 1.0, 2.0]
