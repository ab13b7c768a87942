"""The seam to an engine that can tell when something has landed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from cdc_views.engines.base import Engine


@dataclass(frozen=True, slots=True)
class Followed:
    """A table whose stream is looked at: its raw table, the folder of the stream's checkpoint, what to run."""

    name: str
    location: str
    checkpoint: str
    run: Callable[[], None]


class StreamingEngine(Engine, Protocol):
    """An engine with streams over raw tables."""

    def follow(self, followed: Iterable[Followed], *, interval: str | None, stop: Event) -> None:
        """Run each table whenever something has landed, until `stop` is set.

        `interval`, such as `30 seconds`, is how often at most; None: until all that has landed is taken in.
        Raises `EngineError` where a stream fails.
        """
