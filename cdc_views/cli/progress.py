"""Progress of landings and snapshots: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdc_views.cli.log import log

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from cdc_views.landing import FileReport, Progress
    from cdc_views.landing.targets import SnapshotProgress

_LOG_EVERY = 10.0
"""Seconds between two lines about one snapshot."""


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Yield the progress callback of `land`."""
    if not _is_terminal():
        yield _log_line
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        yield _Bar(bars)


@contextmanager
def shown_snapshots() -> Iterator[SnapshotProgress]:
    """Yield the progress callback of a producer's snapshots."""
    if not _is_terminal():
        yield _SnapshotLines()
        return
    shown = _SnapshotBars()
    try:
        yield shown
    finally:
        shown.end()


def _is_terminal() -> bool:
    return sys.stderr.isatty() and log.format != "json"


class _SnapshotLines:
    """Logs a line per snapshot now and then; the source logs its end."""

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def __call__(self, name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
        now = time.monotonic()
        if is_over or now - self._logged_at.setdefault(name, now) < _LOG_EVERY:
            return
        self._logged_at[name] = now
        log.info(f"{name}: snapshot: {done:,} of {_about(total)} rows", table=name, rows=done)


def _about(total: int | None) -> str:
    return "an unknown number of" if total is None else f"about {total:,}"


class _SnapshotBars:
    """One bar per running snapshot, below the log lines."""

    def __init__(self) -> None:
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
        if self._bars is None:
            self._bars = _snapshot_bars()
            self._bars.start()
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total)
        # the total is the server's guess: a table that has more is not over yet
        self._bars.update(self._tasks[name], completed=done, total=None if total is None else max(total, done))
        if is_over:
            self._bars.remove_task(self._tasks.pop(name))
            if not self._tasks:
                self.end()

    def end(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._tasks = None, {}


def _snapshot_bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Bars(*columns, console=Console(stderr=True), transient=True)


def _log_line(file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
    share = f" ({done_bytes * 100 // total_bytes} %)" if total_bytes else ""
    message = f"{file.name}: {file.events:,} events landed, {file.quarantined:,} quarantined{share}"
    log.info(message, file=file.name, events=file.events, quarantined=file.quarantined, bytes=done_bytes)


class _Bar:
    """One bar a file."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
        if file.name not in self._tasks:
            self._tasks[file.name] = self._bars.add_task(file.name, total=total_bytes)
        self._bars.update(self._tasks[file.name], completed=done_bytes)
