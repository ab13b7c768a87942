"""The lines of an event file in batches: what one commit takes up, wherever the raw table is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cdc_views.errors import MalformedEventError
from cdc_views.landing.pipeline import Batch
from cdc_views.landing.quarantine import RawEvent
from cdc_views.landing.sources import Digest, EventFile, Prefix, RawLine
from cdc_views.rules.codec.jsonread import parse_json

BATCH_ROWS = 20_000
"""Facts a commit holds; bounds memory, not correctness."""
_BATCH_BYTES = 64 << 20
UNFINISHED = "the file ends inside this event (no newline, and not whole JSON); if the file grows, land it again"


@dataclass(slots=True)
class FileBatch(Batch):
    """Consecutive lines of a file; once they have landed, its prefix `end` has. `waiting` are to be read by their form."""

    end: Prefix = field(default_factory=Prefix)
    waiting: list[RawEvent] = field(default_factory=list)

    @property
    def has_moved(self) -> bool:
        """Whether there is any event, so that the file has landed further."""
        return self.events > 0

    def take(self, event: RawEvent) -> None:
        """Add an event, now or with those that wait."""
        if self.reads_forms:
            self.waiting.append(event)
        else:
            self.add(event)

    def decode_waiting(self) -> None:
        """Decode the events that wait, many at once."""
        waiting, self.waiting = self.waiting, []
        if waiting:
            self.add_many(
                [event.content for event in waiting], lines=[event.line for event in waiting], event=waiting.__getitem__
            )

    def must_decode(self, batch_rows: int, start: int) -> bool:
        """Whether it may be full once `waiting` is decoded."""
        most = batch_rows - max(self.facts, len(self.rejected))
        return bool(self.waiting) and (len(self.waiting) >= most or self.end.size - start >= _BATCH_BYTES)

    def is_full(self, batch_rows: int, start: int) -> bool:
        """Whether it is as large as a commit should be; `start`: where it begins, in bytes."""
        return self.facts >= batch_rows or len(self.rejected) >= batch_rows or self.end.size - start >= _BATCH_BYTES


def batches(file: EventFile, start: Prefix, *, batch_rows: int, new: Callable[[Prefix], FileBatch]) -> Iterator[FileBatch]:
    """Yield the batches after a prefix that has landed; the last may end before a line that is not finished.

    Args:
        file: The file.
        start: The prefix.
        batch_rows: Facts a batch holds, give or take one event, or twice as many where events tell of two rows each.
        new: Makes an empty batch that begins after a prefix.
    """
    batch, digest, begun = new(start), start.digest.copy(), start.size
    for line in file.lines(start):
        digest = digest if line.is_terminated else digest.copy()  # the batch may have to end before this line
        _take_in(digest, line)
        event = RawEvent(file.name, digest.digest().hex(), line.content, line.number, line.start, line.end)
        if is_unfinished(line):
            batch.reject(event, UNFINISHED)
            break
        if not line.is_blank:
            batch.take(event)
        batch.end = Prefix(line.end, line.number if line.is_terminated else line.number - 1, digest)
        if batch.must_decode(batch_rows, begun):
            batch.decode_waiting()
        if batch.is_full(batch_rows, begun):
            batch.end = replace(batch.end, digest=digest.copy())
            yield batch
            batch, begun = new(batch.end), line.end
    batch.decode_waiting()
    if batch.has_moved or batch.rejected:
        yield batch


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


__all__ = ["BATCH_ROWS", "UNFINISHED", "FileBatch", "batches", "is_unfinished"]
