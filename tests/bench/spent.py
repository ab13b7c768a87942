"""What an action costs: wall seconds, and CPU seconds of this process and all below it (Spark's JVM and its workers)."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Seconds of one action, or the medians of several."""

    wall: float
    cpu: float

    @classmethod
    def median(cls, each: list[Spent]) -> Spent:
        """Return the median of each."""
        return cls(statistics.median(one.wall for one in each), statistics.median(one.cpu for one in each))

    def of(self, whole: Spent) -> str:
        """Return both as shares of another's."""
        return f"{self.wall / whole.wall:.1%} ({self.cpu / whole.cpu:.1%} of CPU)"

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.cpu:.2f} CPU s)"


def spent(action: Callable[[], Any]) -> tuple[Spent, Any]:
    """Return what the action cost, and its result."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    result = action()
    return Spent(time.perf_counter() - wall, cpu_seconds() - cpu), result


def cpu_seconds() -> float:
    """The CPU that this process, the JVM and Spark's workers have used, ended ones included."""
    while True:
        folders, ticks = processes_below(os.getpid()), 0
        for folder in [Path("/proc/self"), *folders]:
            try:
                ticks += sum(map(int, (folder / "stat").read_text().rsplit(")", 1)[1].split()[11:15]))
            except OSError:
                break
        # a process that ended meanwhile counts with its parent, which may have been read before
        if processes_below(os.getpid()) == folders:
            return ticks / _TICKS


def processes_below(root: int) -> list[Path]:
    """The folders in `/proc` of all processes that descend from `root`."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):  # it ended meanwhile
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found, waiting = list[Path](), [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found += [Path("/proc", str(pid)) for pid in below]
    return found
