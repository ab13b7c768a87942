"""Signals of a process that keeps running: the first one asks it to stop, the second one ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_LOOK_EVERY = 0.2


def run_until_stopped(work: Callable[[Event], None], *, on_stop: Callable[[], None]) -> None:
    """Run `work` with the event that SIGINT or SIGTERM sets, and return when it does; its error is raised here.

    A second signal ends the process at once, with 128 plus its number. Work is done in a thread of its own, because
    Python answers signals in the main thread alone, and not while that waits for an engine.

    Args:
        work: Returns soon after the event is set.
        on_stop: Called once, at the first signal.
    """
    stop = Event()
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work(stop)
        except BaseException as error:
            errors.append(error)

    worker = Thread(target=guarded, name="schedule", daemon=True)
    with _answered(stop, on_stop):
        worker.start()
        while worker.is_alive():
            worker.join(_LOOK_EVERY)
    if errors:
        raise errors[0]


@contextmanager
def _answered(stop: Event, on_stop: Callable[[], None]) -> Iterator[None]:
    def answer(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        on_stop()

    before = {number: signal.signal(number, answer) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
