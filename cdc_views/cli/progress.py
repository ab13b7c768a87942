"""How far landing is: a bar on a terminal, a line a commit elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdc_views.cli.log import log

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from cdc_views.landing import FileReport, Progress


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Yield what `land` reports its progress to."""
    if not sys.stderr.isatty() or log.format == "json":
        yield _log_line
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        yield _Bar(bars)


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
