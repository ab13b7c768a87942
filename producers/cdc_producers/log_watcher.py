"""Asks a server for its state every few seconds while its log is followed, over a second connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from cdc_views.errors import CdcViewsError

EVERY = 5.0
"""Seconds between two checks."""


@dataclass
class LogWatcher:
    """A thread that checks the server; subclasses keep what they see for other threads."""

    _stop: Event = field(default_factory=Event, kw_only=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the thread while the context is open."""
        watcher = Thread(target=self._run, name="watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._stop.set()
            watcher.join(EVERY)

    def is_over(self) -> bool:
        """Return whether there is nothing left to check."""
        return self._stop.is_set()

    def look_until_stopped(self) -> None:
        """Connect, and check until `_stop` is set; called again after the server was away."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.is_over():
            try:
                self.look_until_stopped()
            except CdcViewsError:
                # the source's own connection reports what is wrong
                self._stop.wait(EVERY)
