"""Looking at a server every few seconds while its log is followed, by a connection that is not the log's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from cdc_views.errors import CdcViewsError

EVERY = 5.0
"""Seconds from one look to the next."""


@dataclass
class LogWatcher:
    """Looks in a thread of its own; what is seen is for others to read."""

    _stop: Event = field(default_factory=Event, kw_only=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look every few seconds, in a thread and a connection of its own."""
        watcher = Thread(target=self._run, name="watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._stop.set()
            watcher.join(EVERY)

    def is_over(self) -> bool:
        """Whether there is nothing more to look for."""
        return self._stop.is_set()

    def look_until_stopped(self) -> None:
        """Connect, and look until `_stop` is set; called again where the server is away."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.is_over():
            try:
                self.look_until_stopped()
            except CdcViewsError:
                # the source's own connection says what is wrong
                self._stop.wait(EVERY)
