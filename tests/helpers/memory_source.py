"""A source and a target in memory, for the runtime of producers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from cdc_producers.metrics import Metrics
from cdc_producers.queue import Limits
from cdc_producers.runtime import Runtime
from cdc_producers.source import Emit, Emitted, SourceStatus

from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.landing import Position, StreamLander
from cdc_views.landing.targets import ProducerOrder
from cdc_views.storage.relation import RawTable
from helpers.captured import Said
from helpers.tiny_project import event

TABLE = "shop.orders"

BATCHES = Limits(batch_rows=4, batch_seconds=0.05)


def emitted(number: int, *, content: bytes | None = None) -> Emitted:
    made = event(number).encode() if content is None else content
    return Emitted(TABLE, "log", Position(number), made, time.time(), token=number)


class Target:
    """One raw table; its lander fails as long as `is_away`."""

    name = TABLE

    def __init__(self, raw: RawTable) -> None:
        self.raw, self.schema = raw, raw.relation.schema

    def lander(self, stream: str) -> StreamLander:
        return StreamLander(self.raw, CassandraMutation(), stream)

    def version(self) -> object:
        return 0

    def follow(self) -> None:
        pass


@dataclass
class Memory:
    """A log of events in memory, read from what was confirmed; `troubles` are raised one a run, at its middle."""

    log: list[Emitted]
    troubles: list[Exception] = field(default_factory=list)
    confirmed: int = 0
    kept_alive: int = 0
    runs: int = 0
    at_end: Callable[[], None] = lambda: None

    def run(self, emit: Emit, stop: Event) -> None:
        self.runs += 1
        rest = [item for item in self.log if item.position.at > self.confirmed]
        for i, item in enumerate(rest):
            if self.troubles and i == len(rest) // 2:
                raise self.troubles.pop(0)
            emit(item)
        self.at_end()
        stop.wait(20)

    def keep_alive(self) -> None:
        self.kept_alive += 1

    def landed(self, token: object) -> None:
        assert isinstance(token, int)
        self.confirmed = token

    def status(self) -> SourceStatus:
        return SourceStatus(str(self.confirmed), 0, 0, time.time())

    def close(self) -> None:
        pass


def runtime(source: Memory, raw: RawTable, *, stop_seconds: float = 20.0, **order: Any) -> Runtime:
    """A runtime that stops once the source has said all."""
    made = ProducerOrder([Target(raw)], Said(), Event(), listen=None, **order)
    source.at_end = made.stop.set
    return Runtime(source, made, Metrics("memory"), replace(BATCHES, stop_seconds=stop_seconds))
