"""Splits the lines of an event file into batches; one batch is one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from cdc_views.errors import MalformedEventError
from cdc_views.landing.pipeline import Batch
from cdc_views.landing.quarantine import RawEvent
from cdc_views.landing.report import SHOWN_REJECTIONS, FileReport
from cdc_views.landing.sources import EventFile, Prefix, RawLine
from cdc_views.rules.codec.jsonread import parse_json

BATCH_ROWS = 20_000  # facts per commit; limits memory only
_BATCH_BYTES = 64 << 20
_STEP_BYTES = 1 << 20
"""What is read between two steps of the progress: less than a second's work of the slowest format."""
UNFINISHED = "the file ends inside this event (no newline, and not whole JSON); if the file grows, land it again"


@dataclass(slots=True)
class FileBatch(Batch):
    """Consecutive lines of a file, up to the prefix `end`; `waiting` holds events that are decoded together, by their form."""

    end: Prefix = field(default_factory=Prefix)
    waiting: list[RawEvent] = field(default_factory=list)

    @property
    def has_moved(self) -> bool:
        """Whether the batch has an event, and so moves the file's offset."""
        return self.events > 0

    def take(self, event: RawEvent) -> None:
        """Decode an event, or add it to `waiting`."""
        if self.reader is not None:
            self.waiting.append(event)
        else:
            self.add(event)

    def decode_waiting(self) -> None:
        """Decode all waiting events at once."""
        waiting, self.waiting = self.waiting, []
        contents, lines = [event.content for event in waiting], [event.line for event in waiting]
        self.add_many(contents, lines=lines, event=waiting.__getitem__)

    def room(self, batch_rows: int, start: int) -> int:
        """Return how many more facts fit the commit; 0 if the batch, which begins at byte `start`, has enough bytes."""
        return 0 if self.end.size - start >= _BATCH_BYTES else batch_rows - max(self.facts, len(self.rejected))


def batches(
    file: EventFile,
    start: Prefix,
    *,
    batch_rows: int,
    new: Callable[[Prefix], FileBatch],
    passed: Callable[[int], None] | None = None,
) -> Iterator[FileBatch]:
    """Yield the batches after a landed prefix; the last may end before an unfinished line.

    A batch holds `batch_rows` facts, give or take one event; twice as many if each event gives two. `new` makes an empty batch.
    `passed` is called with the offset of the reading now and then.
    """
    batch, digest, begun = new(start), start.digest.copy(), start.size
    step = begun if passed is not None else None
    for line in file.lines(start):
        digest = digest if line.is_terminated else digest.copy()  # the batch may have to end before this line
        digest.update(line.content + b"\n" * line.is_terminated)
        event = RawEvent(file.name, digest.digest().hex(), line.content, line.number, line.start, line.end)
        if is_unfinished(line):
            batch.reject(event, UNFINISHED)
            break
        if not line.is_blank:
            batch.take(event)
        batch.end = Prefix(line.end, line.number if line.is_terminated else line.number - 1, digest)
        if step is not None and passed is not None and line.end >= step:
            step = line.end + _STEP_BYTES
            passed(line.end)
        if len(batch.waiting) >= batch.room(batch_rows, begun):
            batch.decode_waiting()
        if batch.room(batch_rows, begun) <= 0:
            batch.end = replace(batch.end, digest=digest.copy())
            yield batch
            batch, begun = new(batch.end), line.end
    batch.decode_waiting()
    if batch.has_moved or batch.rejected:
        yield batch


def with_batch(report: FileReport, batch: FileBatch, *, facts: int, size: int) -> FileReport:
    """Return a file's report after a batch of `facts` rows and `size` bytes."""
    quarantined = batch.quarantined
    return replace(
        report,
        events=report.events + batch.landed,
        facts=report.facts + facts,
        quarantined=report.quarantined + len(quarantined),
        forgotten=report.forgotten + batch.forgotten,
        landed_bytes=report.landed_bytes + size,
        rejections=(report.rejections + quarantined)[:SHOWN_REJECTIONS],
    )


def is_unfinished(line: RawLine) -> bool:
    """Whether a file seems to end inside this line."""
    if line.is_terminated or line.is_blank:
        return False
    try:
        # only an object or an array cannot continue: 1 may become 12
        return not isinstance(parse_json(line.content.decode()), dict | list)
    except (MalformedEventError, UnicodeDecodeError):
        return True
