"""Lands batches of one table: events get numbers, and rows and the last number are one commit.

A client that posts has no position, so the receiver counts: an event's number is the clock in µs, and above every
number of the table's stream. Both parts of its position are that number, as a format that knows no position of its
own orders by it. An event that is posted twice, as after an answer that was lost, lands twice: the merge takes it once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from cdc_producers.table_landing import TableLanding
from cdc_views.errors import TransientError
from cdc_views.landing import Position, StreamEvent, StreamLander, exists
from cdc_views.landing.targets import StreamTarget
from cdc_views.rules.instants import micros

BATCH_EVENTS = 2_000
"""Events a commit holds, give or take one request."""
BATCH_BYTES = 16 << 20
_ATTEMPTS = 20


@dataclass(slots=True, eq=False)
class Arrival:
    """One event on its way; `number` is 0 until it is first tried, `reason` says why it went to quarantine."""

    content: bytes
    number: int = 0
    reason: str = ""


@dataclass(slots=True)
class TableWriter:
    """Lands into one table, from one thread at a time."""

    table: StreamTarget
    stream: str
    _landing: TableLanding = field(init=False)
    _lander: StreamLander | None = None
    _last: int = 0

    def __post_init__(self) -> None:
        self._landing = TableLanding(self.table)

    def open(self) -> None:
        """Check a raw table that is there; one that is not is created for its first event.

        Raises:
            UsageError: The raw table is another table's, of another format, or of a newer version.
        """
        if self.table.raw is not None and exists(self.table.raw):
            self._opened()

    def land(self, events: Sequence[Arrival]) -> None:
        """Land events in this order, or put them into quarantine for a reason.

        Raises:
            EngineError: Nothing is promised to have landed: the target failed, or other writers kept committing first.
        """
        lander, pending = self._opened(), events
        self._number(event for event in events if not event.number)
        for _ in range(_ATTEMPTS):
            sent = {event.number: event for event in pending}
            content = [StreamEvent(Position(number, number), event.content) for number, event in sent.items()]
            report = lander.land(content, through=content[-1].position, now=datetime.now(timezone.utc))
            for rejection in report.rejections:
                sent[rejection.line].reason = rejection.reason
            # a receiver of the same name has landed others under later numbers: what was skipped gets new ones
            pending = pending[: report.skipped]
            if not pending:
                return
            self._last = max(self._last, (lander.position() or Position(0)).at)
            self._number(pending)
        raise TransientError(f"{self.table.name}: other receivers named as this one keep landing first; give each its own --name")

    def _opened(self) -> StreamLander:
        lander = self._landing.lander(self.stream)
        assert isinstance(lander, StreamLander), "the receiver lands in raw tables alone"
        if lander is not self._lander:
            lander.shown = sys.maxsize
            known = lander.position()
            self._last = max(self._last, known.at if known else 0)
            self._lander = lander
        return lander

    def _number(self, events: Iterable[Arrival]) -> None:
        now = micros(datetime.now(timezone.utc))
        for event in events:
            self._last = event.number = max(self._last + 1, now)
