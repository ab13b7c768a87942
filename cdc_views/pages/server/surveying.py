"""Looks at every table beside the requests, so that the first page comes at once, whatever their number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock, Thread

from cdc_views.operations.context import TableContext
from cdc_views.operations.run_records import RunRecord
from cdc_views.pages.home import Level, TableFinding, TableLine, line_of
from cdc_views.pages.texts import visible

FRESH = 10.0
"""Seconds for which a look at all tables is good."""


class Survey:
    """The lines of the first page that are known so far; a look at all tables runs in a thread of its own, one at a time."""

    def __init__(self, tables: Callable[[], Iterable[TableContext]], records: Callable[[], list[RunRecord]]) -> None:
        self._tables, self._records = tables, records
        self._lines: dict[str, TableLine] = {}
        self._lock = Lock()
        self._running: Thread | None = None
        self._ended = float("-inf")

    def lines(self, *, wait: float = 0.6) -> dict[str, TableLine]:
        """Return the lines by table name; begin a new look where the last is old, and wait so many seconds for its end."""
        with self._lock:
            if self._running is None and time.monotonic() - self._ended > FRESH:
                self._running = Thread(target=self._look, name="survey", daemon=True)
                self._running.start()
            running = self._running
        if running is not None:
            running.join(wait)
        return dict(self._lines)

    def _look(self) -> None:
        try:
            records, seen = self._records(), set[str]()
            for table in self._tables():
                seen.add(table.name)
                self._lines[table.name] = _line(table, records)
            for name in set(self._lines) - seen:
                del self._lines[name]
        finally:
            with self._lock:
                self._ended, self._running = time.monotonic(), None


def _line(table: TableContext, records: list[RunRecord]) -> TableLine:
    try:
        return line_of(table, records)
    except Exception as error:  # one table that nobody foresaw does not hide the others
        broken = TableFinding(Level.BROKEN, visible(f"{type(error).__name__}: {error}", most=400), "proof")
        return TableLine(table.name, table.config.slug, None, (broken,))
