"""A pytest plugin: SIGTERM ends a run as Ctrl-C does, so that servers are stopped and their folders removed.

Servers end with the run whatever ends it (`services.account.launched`); their folders do not.
"""

from __future__ import annotations

import signal
from threading import current_thread, main_thread
from types import FrameType


def pytest_configure() -> None:
    """See pytest's hooks."""
    if current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends at once
    raise KeyboardInterrupt("SIGTERM")
