"""Progress of landings and snapshots: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from cdc_views.cli.log import log

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn, TaskID

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
    with closing(_Bars()) as bars:
        yield _FileBars(bars)


@contextmanager
def shown_snapshots() -> Iterator[SnapshotProgress]:
    """Yield the progress callback of a producer's snapshots."""
    if not _is_terminal():
        yield _SnapshotLines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    with closing(_Bars(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())) as bars:
        yield bars


def _is_terminal() -> bool:
    return sys.stderr.isatty() and log.format != "json"


class _SnapshotLines:
    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def __call__(self, name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
        now = time.monotonic()
        if is_over or now - self._logged_at.setdefault(name, now) < _LOG_EVERY:
            return
        self._logged_at[name] = now
        about = "an unknown number of" if total is None else f"about {total:,}"
        log.info(f"{name}: snapshot: {done:,} of {about} rows", table=name, rows=done)


class _Bars:
    """A bar for each name, below the log lines; the display exists from the first bar to the end of the last."""

    def __init__(self, *columns: ProgressColumn) -> None:
        self._columns = columns
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, name: str, *, done: int, total: int | None, is_over: bool = False) -> None:
        if self._bars is None:
            from rich.console import Console
            from rich.progress import Progress as Bars

            self._bars = Bars(*self._columns, console=Console(stderr=True), transient=True)
            self._bars.start()
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total)
        # the total is the server's estimate: a larger table is not done yet
        self._bars.update(self._tasks[name], completed=done, total=None if total is None else max(total, done))
        if is_over:
            self._bars.remove_task(self._tasks.pop(name))
            if not self._tasks:
                self.close()

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._tasks = None, {}


class _FileBars:
    """A bar for each file, which moves while a batch is read."""

    def __init__(self, bars: _Bars) -> None:
        self._bars = bars

    def __call__(self, file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
        self._bars(file.name, done=done_bytes, total=total_bytes)

    read = __call__


def _log_line(file: FileReport, *, done_bytes: int, total_bytes: int | None) -> None:
    share = f" ({done_bytes * 100 // total_bytes} %)" if total_bytes else ""
    message = f"{file.name}{share}: {file.events:,} events landed, {file.quarantined:,} quarantined"
    log.info(message, file=file.name, events=file.events, quarantined=file.quarantined, bytes=done_bytes)
