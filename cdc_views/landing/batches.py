"""An event file's lines, decoded, in batches: what one commit takes up, wherever the raw table is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from cdc_views.errors import MalformedEventError
from cdc_views.landing.decoding import Decoder, rows_of_events
from cdc_views.landing.fact_filter import NOT_KEPT
from cdc_views.landing.formed import Formed, FormReader, in_order
from cdc_views.landing.quarantine import BadEvent
from cdc_views.landing.sources import Digest, EventFile, Prefix, RawLine
from cdc_views.rules.codec.jsonread import parse_json
from cdc_views.rules.facts import Fact

BATCH_ROWS = 20_000
"""Facts a commit holds; bounds memory, not correctness."""
_BATCH_BYTES = 64 << 20
UNFINISHED = "the file ends inside this event (no newline, and not whole JSON); if the file grows, land it again"
Fitting = Callable[[Decoder, Sequence[Sequence[Fact]]], tuple[pa.Table, dict[int, str]]]
"""Returns the rows of all events that fit a raw table, and the reason of each that does not, by its index."""


class Line(NamedTuple):
    """A line with an event: its place in the batch, and its identity in quarantine."""

    place: int
    line: RawLine
    identity: str


@dataclass(slots=True)
class Batch:
    """Consecutive lines of a file: what one commit takes up. `end` is the prefix landed with it.

    Lines are decoded many at once: `waiting` are not yet, `formed` are rows of some, `events` the facts of the others.
    """

    end: Prefix
    waiting: list[Line] = field(default_factory=list)
    formed: list[Formed] = field(default_factory=list)
    whole: list[Line] = field(default_factory=list)
    events: list[tuple[Line, list[Fact]]] = field(default_factory=list)
    bad: list[BadEvent] = field(default_factory=list)
    misfits: int = 0
    lines: int = 0
    facts: int = 0

    @property
    def landed(self) -> int:
        """How many events land, once `rows` has said which fit."""
        return len(self.whole) + len(self.events) - self.misfits

    @property
    def has_moved(self) -> bool:
        """Whether there is any event, so that the file has landed further."""
        return self.lines > 0

    def is_full(self, batch_rows: int, start: int) -> bool:
        """Whether it is as large as a commit should be; `start`: where it begins, in bytes."""
        return self.facts >= batch_rows or len(self.bad) >= batch_rows or self.end.size - start >= _BATCH_BYTES

    def add(self, line: RawLine, identity: str) -> None:
        """Add a line with an event."""
        self.waiting.append(Line(self.lines, line, identity))
        self.lines += 1

    def rows(self, decoder: Decoder, fitting: Fitting = rows_of_events) -> pa.Table:
        """Return the rows of all events, in order; those that do not fit the raw table become `bad`."""
        single, misfits = fitting(decoder, [facts for _, facts in self.events])
        self.bad += [bad_event(self.events[i][0], reason) for i, reason in misfits.items()]
        self.misfits = len(misfits)
        places = [line.place for i, (line, facts) in enumerate(self.events) if i not in misfits for _ in facts]
        return in_order([*self.formed, Formed(single, places)], empty=single)


@dataclass(slots=True)
class Batches:
    """Reads a file in batches.

    Attributes:
        decoder: Decodes the events; another one takes its place once keys were forgotten.
        file: The file.
        batch_rows: Facts a batch holds, give or take one event, or twice as many where events tell of two rows each.
        reads_forms: Whether events of a known form are read many at once, into `Batch.formed`.
    """

    decoder: Decoder
    file: EventFile
    batch_rows: int = BATCH_ROWS
    reads_forms: bool = True
    _reader: FormReader = field(init=False)

    def __post_init__(self) -> None:
        self._reader = FormReader(self.decoder.raw.relation, self.decoder.format)

    def after(self, start: Prefix) -> Iterator[Batch]:
        """Yield the batches after a prefix that has landed; the last may end before a line that is not finished."""
        batch, digest, begun = Batch(start), start.digest.copy(), start.size
        for line in self.file.lines(start):
            digest = digest if line.is_terminated else digest.copy()  # the batch may have to end before this line
            _take_in(digest, line)
            if is_unfinished(line):
                batch.bad.append(bad_event(Line(0, line, _identity(digest)), UNFINISHED))
                break
            if not line.is_blank:
                batch.add(line, _identity(digest))
            batch.end = Prefix(line.end, line.number if line.is_terminated else line.number - 1, digest)
            if self._is_enough(batch, begun):
                self._decode(batch)
            if batch.is_full(self.batch_rows, begun):
                batch.end = replace(batch.end, digest=digest.copy())
                yield batch
                batch, begun = Batch(batch.end), line.end
        self._decode(batch)
        if batch.has_moved or batch.bad:
            yield batch

    def _is_enough(self, batch: Batch, begun: int) -> bool:
        """Whether a batch may be full once the lines that wait are decoded; where nothing is known of them, at each."""
        most = self.batch_rows - max(batch.facts, len(batch.bad)) if self._reads_forms else 1
        return len(batch.waiting) >= most or batch.end.size - begun >= _BATCH_BYTES

    def _decode(self, batch: Batch) -> None:
        waiting, batch.waiting = batch.waiting, []
        taken: set[int] = set()
        if self._reads_forms and not self.decoder.holds_back:
            contents = [line.line.content for line in waiting]
            lines = [line.line.number for line in waiting]
            for formed in self._reader.read(contents, lines=lines, landed_at=self.decoder.landed_at):
                taken.update(formed.events)
                batch.formed.append(replace(formed, events=[waiting[index].place for index in formed.events]))
        batch.whole += [waiting[index] for index in sorted(taken)]
        batch.facts += len(taken)
        for index, line in enumerate(waiting):
            if index not in taken:
                self._add(batch, line)

    @property
    def _reads_forms(self) -> bool:
        return self.reads_forms and self.decoder.format.has_forms

    def facts(self, line: RawLine) -> list[Fact]:
        """Return the facts of an event; raises `MalformedEventError`."""
        return self.decoder.facts(line.content, line=line.number, offset=line.start)

    def _add(self, batch: Batch, found: Line) -> None:
        line = found.line
        try:
            facts = self.facts(line)
        except MalformedEventError as error:
            batch.bad.append(bad_event(found, str(error)))
            return
        facts, reason = self.decoder.sifted(facts, line.content, line=line.number, offset=line.start)
        if reason:
            found = found._replace(line=replace(line, content=NOT_KEPT))
            batch.bad.append(replace(bad_event(found, reason), is_settled=True))
        if facts or not reason:
            batch.events.append((found, facts))
        batch.facts += len(facts)


def is_unfinished(line: RawLine) -> bool:
    """Whether a file ends inside its last line, for all that is known."""
    if line.is_terminated or line.is_blank:
        return False
    try:
        # of all JSON only an object or array cannot go on: 1 may become 12
        return not isinstance(parse_json(line.content.decode()), dict | list)
    except (MalformedEventError, UnicodeDecodeError):
        return True


def _take_in(digest: Digest, line: RawLine) -> None:
    digest.update(line.content)
    if line.is_terminated:
        digest.update(b"\n")


def _identity(digest: Digest) -> str:
    return digest.digest().hex()


def bad_event(found: Line, reason: str) -> BadEvent:
    """Return an event for quarantine."""
    line = found.line
    return BadEvent(found.identity, line.number, line.start, line.end, reason, line.content)


__all__ = ["BATCH_ROWS", "UNFINISHED", "Batch", "Batches", "Line", "is_unfinished"]
