"""How events reach a raw table; the same for files, streams, quarantine and external tables.

========  ==========================================================================================================
step      what happens
========  ==========================================================================================================
redact    applies policies of columns to an event's text; no later step, and nothing that is written, has the values
decode    turns an event into facts, or many events of one form into rows at once; rejects events that do not decode
filter    drops older facts of forgotten keys; rejects their events, without the bytes
fit       turns facts into rows; rejects events with a value that its column cannot hold
commit    writes rejected events to quarantine, then the rows together with the position of their source
========  ==========================================================================================================

A crash between the two commits repeats the batch; quarantine recognizes its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from cdc_views.errors import EngineError, MalformedEventError, TransientError
from cdc_views.formats.redaction import Redacted, marked
from cdc_views.landing.appending import appended
from cdc_views.landing.decoding import Decoder, rows_of_events
from cdc_views.landing.denylist import NOT_KEPT
from cdc_views.landing.formed import Formed, FormReader, in_order
from cdc_views.landing.quarantine import RawEvent, RejectedEvent
from cdc_views.landing.report import Rejection
from cdc_views.rules.facts import Fact
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.table_log import TableLog

RowsOfEvents = Callable[[Decoder, Sequence[Sequence[Fact]]], tuple[pa.Table, dict[int, str]]]
"""Returns the rows of the events that fit a raw table, and the reason for each other event, by its index."""


class _Decoded(NamedTuple):
    """An event that was decoded by itself, its number within the batch, and the facts to land."""

    number: int
    event: RawEvent
    facts: list[Fact]


@dataclass(slots=True)
class Batch:
    """The events of one commit, as rows and as rejected events.

    Attributes:
        reader: Reads many events of a known form at once. None, always if keys are forgotten: decode each event by itself.
        rejected: The events for quarantine; complete after `rows`.
        facts: Number of rows of the events added so far.
        events: Number of events added by `add` and `add_many`.
    """

    decoder: Decoder
    reader: FormReader | None = None
    fit: RowsOfEvents = rows_of_events
    rejected: list[RejectedEvent] = field(default_factory=list)
    facts: int = 0
    events: int = 0
    _decoded: list[_Decoded] = field(default_factory=list)
    _unfit: Mapping[int, str] = field(default_factory=dict)
    _formed: list[Formed] = field(default_factory=list)
    _by_form: list[tuple[Sequence[int], Callable[[int], RawEvent]]] = field(default_factory=list)
    _made: list[RawEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        # a form makes rows without facts, and only facts are compared with forgotten keys
        if self.decoder.holds_back or not self.decoder.format.has_forms:
            self.reader = None

    def add(self, event: RawEvent) -> None:
        """Add an event after the others."""
        self.events += 1
        if self.decoder.redacts and event.rows is not None:
            raise EngineError(f"{event.source}: rows that a source made are not redacted; policies of columns need its events")
        found = self.decoder.redacted(event.content)
        if found.reason:
            self._reject(event._replace(content=found.content), found.reason)
        else:
            self._decode(self.events - 1, _as_left(event, found) if self.decoder.redacts else event)

    def add_many(self, contents: Sequence[bytes], *, lines: Sequence[int], event: Callable[[int], RawEvent]) -> None:
        """Add events after the others, by their bytes and their `RawEvent.line`; `event` returns one by its index.

        An object per event would cost more than reading it by its form.
        """
        if self.decoder.redacts:
            contents, lines, event = self._redacted(contents, lines, event)
        first, self.events = self.events, self.events + len(contents)
        taken: set[int] = set()
        if self.reader is not None:
            for formed in self.reader.read(contents, lines=lines, landed_at=self.decoder.landed_at):
                taken.update(formed.events)
                self._formed.append(replace(formed, events=[first + index for index in formed.events]))
        self._by_form.append((sorted(taken), event))
        self.facts += len(taken)
        for index in range(len(contents)):
            if index not in taken:
                self._decode(first + index, event(index))

    def _redacted(
        self, contents: Sequence[bytes], lines: Sequence[int], event: Callable[[int], RawEvent]
    ) -> tuple[list[bytes], list[int], Callable[[int], RawEvent]]:
        """Return the arguments of `add_many` with policies applied, without the events that were withheld."""
        found = list(map(self.decoder.redacted, contents))
        for index, one in enumerate(found):
            if one.reason:
                self.events += 1
                self._reject(event(index)._replace(content=one.content), one.reason)
        kept = [index for index, one in enumerate(found) if not one.reason]

        def redacted_event(index: int) -> RawEvent:
            return _as_left(event(kept[index]), found[kept[index]])

        return [found[index].content for index in kept], [lines[index] for index in kept], redacted_event

    def add_made(self, event: RawEvent) -> None:
        """Add rows that a source made; they land unchanged, after all others."""
        self._made.append(event)

    def reject(self, event: RawEvent, reason: str) -> None:
        """Send an event that is not decoded to quarantine."""
        withheld = self.decoder.withheld(event.content, reason)
        self._reject(event._replace(content=withheld.content), withheld.reason)

    def _reject(self, event: RawEvent, reason: str, *, is_forgotten: bool = False) -> None:
        """Send a redacted event to quarantine; without its bytes if it is about a forgotten key."""
        content = NOT_KEPT if is_forgotten else marked(event.content) if event.is_redacted else event.content
        self.rejected.append(RejectedEvent(event._replace(content=content), reason, is_forgotten))

    def _decode(self, number: int, event: RawEvent) -> None:
        try:
            facts = _facts(self.decoder, event)
        except MalformedEventError as error:
            self._reject(event, str(error))
            return
        facts, reason = self.decoder.without_forgotten(facts, event.content, **event.place)
        if reason:
            self._reject(event, reason, is_forgotten=True)
            # if the newer part does not fit, quarantine must not keep the older part
            event = event._replace(content=NOT_KEPT, is_redacted=False)
        # an event without facts has landed; an event whose facts were all dropped has not
        if facts or not reason:
            self._decoded.append(_Decoded(number, event, facts))
        self.facts += len(facts)

    def rows(self) -> pa.Table:
        """Return the rows of all events in order; events that do not fit become `rejected`. Call it once."""
        single, self._unfit = self.fit(self.decoder, [each.facts for each in self._decoded])
        for index, reason in self._unfit.items():
            self._reject(self._decoded[index].event, reason)
        numbers = [each.number for i, each in enumerate(self._decoded) if i not in self._unfit for _ in each.facts]
        rows = in_order([*self._formed, Formed(single, numbers)], empty=single)
        made = [event.rows.stamped(self.decoder.landed_at) for event in self._made if event.rows is not None]
        return pa.concat_tables([rows, *made]) if made else rows

    @property
    def decoded(self) -> list[RawEvent]:
        """The landing events that were decoded by themselves."""
        return [each.event for index, each in enumerate(self._decoded) if index not in self._unfit]

    @property
    def landed(self) -> int:
        """Number of events that land."""
        of_rows = [1 if event.rows is None else event.rows.events for event in (*self.decoded, *self._made)]
        return sum(of_rows) + sum(len(indexes) for indexes, _ in self._by_form)

    @property
    def quarantined(self) -> tuple[Rejection, ...]:
        """The rejected events that may land after a repair."""
        return tuple(Rejection(event.line, reason) for event, reason, is_forgotten in self.rejected if not is_forgotten)

    @property
    def forgotten(self) -> int:
        """Number of events that did not land, or not whole, because their key was forgotten."""
        return sum(event.is_forgotten for event in self.rejected)

    def check_forgotten(self) -> None:
        """Raise `TransientError` if a key of the batch was forgotten meanwhile; its values are in a file, committed or not."""
        decoder = self.decoder.reread()
        for event, facts in self._all_facts(decoder):
            if decoder.without_forgotten(facts, event.content, **event.place)[1]:
                raise TransientError(f"{event.where}: its key was forgotten while it landed; run that `forget` again")

    def _all_facts(self, decoder: Decoder) -> Iterator[tuple[RawEvent, list[Fact]]]:
        yield from ((event, facts) for _, event, facts in self._decoded)
        for indexes, event_of in self._by_form:
            yield from ((event := event_of(index), _facts(decoder, event)) for index in indexes)
        yield from ((event, _facts(decoder, event)) for event in self._made)


def _as_left(event: RawEvent, found: Redacted) -> RawEvent:
    return event._replace(content=found.content, is_redacted=found.is_new)


def _facts(decoder: Decoder, event: RawEvent) -> list[Fact]:
    if event.rows is not None:
        return event.rows.facts(decoder.raw.relation.schema)
    return decoder.facts(event.content, **event.place)


def check_current(decoder: Decoder, *, source: str) -> None:
    """Raise `ConflictError` if keys were forgotten since `decoder` was made; call it before a commit."""
    if not decoder.is_current():
        raise ConflictError(f"{source}: keys were forgotten while it landed; run it again")


def commit(log: TableLog, rows: pa.Table, batch: Batch, *, transactions: Mapping[str, int], source: str) -> TableLog:
    """Append the rows of `batch` to a raw table, with `transactions`, in one commit after `log`; return the log after it.

    Raises:
        ConflictError: Somebody else committed first, or other keys were forgotten meanwhile; nothing was written.
        TransientError: A key of this batch was forgotten meanwhile.
    """
    check_current(batch.decoder, source=source)
    # in one commit: rows without their position would land twice, a position without its rows would lose them
    try:
        after = appended(log, rows, transactions=transactions)
    except EngineError as error:
        # `forget` removes the log entries that this commit builds on
        if batch.decoder.is_current():
            raise
        batch.check_forgotten()
        raise ConflictError(str(error)) from error
    # a concurrent `forget` may have looked for rows before they were there
    if not batch.decoder.is_current():
        batch.check_forgotten()
    return after
