"""Landers that see only the log find a pace at which all of them get through."""

from __future__ import annotations

import heapq
import random

import pytest

from cdc_views.landing.pacing import LONGEST, Pace


def simulated(landers: int, *, seconds: float, takes: float = 0.1, seed: int = 1) -> tuple[float, list[float]]:
    """Commits a second of the last quarter of the time, and the pauses then; a commit takes `takes` seconds of the log."""
    rng, now, version, free, late = random.Random(seed), 0.0, 0, 0.0, 0
    paces = [Pace(lambda: now) for _ in range(landers)]
    due = [(rng.random(), lander) for lander in range(landers)]
    heapq.heapify(due)
    while due[0][0] < seconds:
        at, lander = heapq.heappop(due)
        now = free = max(at, free) + takes
        version += 1
        late += now > 0.75 * seconds
        heapq.heappush(due, (now + paces[lander].note(version), lander))
    return late / (0.25 * seconds), [pace.pause for pace in paces]


def test_one_alone_does_not_wait_longer() -> None:
    rate, (pause,) = simulated(1, seconds=300)
    assert (round(rate, 1), pause) == (0.9, 1.0)


@pytest.mark.parametrize("landers", [2, 5, 20, 50])
def test_many_commit_about_once_a_second_together(landers: int) -> None:
    rate, pauses = simulated(landers, seconds=3_000)
    assert 0.4 < rate < 2.5
    assert max(pauses) <= LONGEST


def test_a_hundred_wait_no_longer_than_the_longest_pause() -> None:
    rate, pauses = simulated(100, seconds=3_000)
    assert 1.0 < rate < 3.0
    assert max(pauses) <= LONGEST


def test_a_pause_ends_when_the_others_are_gone() -> None:
    now = 0.0
    pace = Pace(lambda: now)
    for version in range(0, 1_000, 100):
        now += 10
        pace.note(version)
    assert pace.pause == LONGEST
    for version in range(1_000, 1_020):
        now += pace.pause
        pace.note(version)
    assert pace.pause == 1.0
