"""Bounds what `verify` costs the source: rows a second, rows a query, and seconds in all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cdc_views.errors import UsageError


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one run may cost.

    Attributes:
        sample: Rows to compare; 0: all.
        rate: Rows a second that are read from the source; 0: no bound.
        chunk: Rows of one query.
        seconds: A run begins no further query after so long; 0: no bound.
        wait: Seconds to wait until what was read has landed.
    """

    sample: int = 10_000
    rate: float = 5_000
    chunk: int = 1_000
    seconds: float = 0.0
    wait: float = 60.0

    def __post_init__(self) -> None:
        for option, value, least in (("--sample", self.sample, 0), ("--chunk", self.chunk, 1), ("--rate", self.rate, 0)):
            if value < least:
                raise UsageError(f"{option} is {value}; {least} or more was expected")


@dataclass
class SourceLoad:
    """Counts a run's queries and rows, and waits so that they stay within the bounds."""

    bounds: Bounds
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    queries: int = 0
    rows: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def seconds(self) -> float:
        """How long the run has taken."""
        return self.clock() - self.began

    @property
    def is_over(self) -> bool:
        """Whether the time is used up."""
        return bool(self.bounds.seconds) and self.seconds >= self.bounds.seconds

    def note(self, rows: int) -> None:
        """Count one query; wait as long as its rows may take."""
        self.queries += 1
        self.rows += rows
        if self.bounds.rate:
            ahead = self.rows / self.bounds.rate - self.seconds
            if ahead > 0:
                self.sleep(ahead)
