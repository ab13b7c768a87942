"""`land`: event files into a raw table, exactly once, in batches.

For each batch the bad events are committed to quarantine first, then the good ones to the raw table together with
the offset reached (see `offsets`). A crash between the two repeats the batch, and quarantine knows its events.

A file's last line may lack its newline. If it is whole JSON it is an event. If not, the file was cut short or is
still being written: the line goes to quarantine, and the offset stays before it, so that the line lands whole
once the file has grown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.codec.jsonread import parse_json
from cdc_views.erasing.forgotten import Forgotten
from cdc_views.erasing.sifting import NOT_KEPT
from cdc_views.errors import MalformedEventError, TransientError
from cdc_views.facts import Fact
from cdc_views.landing.committing import commit
from cdc_views.landing.decoding import Decoder, rows_of_events
from cdc_views.landing.delta import ATTEMPTS, ConflictError
from cdc_views.landing.formed import Formed, FormReader, in_order
from cdc_views.landing.offsets import Place, locate
from cdc_views.landing.quarantine import BadEvent, put, settle_fragment
from cdc_views.landing.raw_table import create_raw
from cdc_views.landing.report import SHOWN_REJECTIONS, FileReport, LandingReport, Progress, Rejection, no_progress
from cdc_views.landing.sources import Digest, EventFile, Prefix, RawLine, opened
from cdc_views.raw.base import RawFormat
from cdc_views.relation import RawTable

BATCH_ROWS = 20_000
"""Facts a commit holds; bounds memory, not correctness."""
_BATCH_BYTES = 64 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
UNFINISHED = "the file ends inside this event (no newline, and not whole JSON); if the file grows, land it again"


def land(
    raw: RawTable,
    format: RawFormat,
    files: Iterable[str | Path],
    *,
    now: datetime,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
    forgotten: Forgotten | None = None,
) -> LandingReport:
    """Append event files to the raw table, which is created if it is not there.

    What landed before, under whatever name, is skipped; a call that finds nothing new commits nothing. Good events
    land even when others do not: those go to quarantine with a reason.

    Args:
        raw: The raw table and its schema.
        format: How an event reads.
        files: Paths of plain or gzip files, or `-` for standard input; all must exist before any is landed.
        now: The landing time of the new rows; without a zone it is UTC.
        batch_rows: Facts a commit holds, give or take one event, or twice as many where events tell of two rows each.
        progress: Called after each commit.
        forgotten: Keys whose older events go to quarantine without their bytes; None for none.

    Raises:
        SourceFileError: A file is missing or unreadable.
        UsageError: The raw table belongs to another table, another format or a newer version.
        TransientError: Other writers kept committing first.
    """
    with opened(files) as found:
        create_raw(raw, format_name=format.name)
        decoder = Decoder(raw, format, micros(now), forgotten)
        reports = tuple(_Landing(decoder, file, batch_rows, progress or no_progress).run() for file in found)
        return LandingReport(raw.relation.schema.full_name, reports)


def micros(now: datetime) -> int:
    """Return µs since the epoch; a time without a zone is UTC."""
    aware = now if now.tzinfo else now.replace(tzinfo=timezone.utc)
    return (aware - _EPOCH) // timedelta(microseconds=1)


class _Line(NamedTuple):
    """A line with an event: its place in the batch, and its identity in quarantine."""

    place: int
    line: RawLine
    identity: str


@dataclass(slots=True)
class _Batch:
    """Consecutive lines of a file: what one commit takes up. `end` is the prefix landed with it.

    Lines are decoded many at once: `waiting` are not yet, `formed` are rows of some, `events` the facts of the others.
    """

    end: Prefix
    waiting: list[_Line] = field(default_factory=list)
    formed: list[Formed] = field(default_factory=list)
    whole: list[_Line] = field(default_factory=list)
    events: list[tuple[_Line, list[Fact]]] = field(default_factory=list)
    bad: list[BadEvent] = field(default_factory=list)
    lines: int = 0
    facts: int = 0

    @property
    def has_moved(self) -> bool:
        return self.lines > 0

    def is_full(self, batch_rows: int, start: int) -> bool:
        return self.facts >= batch_rows or len(self.bad) >= batch_rows or self.end.size - start >= _BATCH_BYTES

    def add(self, line: RawLine, identity: str) -> None:
        self.waiting.append(_Line(self.lines, line, identity))
        self.lines += 1


@dataclass(slots=True)
class _Landing:
    """One file being landed."""

    decoder: Decoder
    file: EventFile
    batch_rows: int
    progress: Progress
    report: FileReport = field(init=False)
    reader: FormReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = FormReader(self.decoder.raw.relation, self.decoder.format)

    def run(self) -> FileReport:
        self.report = FileReport(self.file.name)
        for _ in range(ATTEMPTS):
            try:
                self._land_rest()
                return self.report
            except ConflictError:
                self.decoder = self.decoder.reread()
                continue  # another lander committed: look again where the file stands
        raise TransientError(f"{self.file.name}: other writers kept committing to {self.decoder.raw.location}; run it again")

    def _land_rest(self) -> None:
        table = create_raw(self.decoder.raw, format_name=self.decoder.format.name)
        place = locate(table, self.file)
        self.report = replace(self.report, skipped_bytes=place.landed.size - self.report.landed_bytes)
        line = next(iter(self.file.lines(place.landed)), None)
        if line is not None and not _is_unfinished(line):
            settle_fragment(self.decoder.raw, landed=place.landed, line=line)
        for batch in self._batches(place.landed):
            single, misfits = rows_of_events(self.decoder, [facts for _, facts in batch.events])
            places = [line.place for i, (line, facts) in enumerate(batch.events) if i not in misfits for _ in facts]
            rows = in_order([*batch.formed, Formed(single, places)], empty=single)
            batch.bad += [_bad(batch.events[i][0], reason) for i, reason in misfits.items()]
            fresh = self._quarantine(batch.bad, place)
            if batch.has_moved:
                self._append(table, rows, batch, place)
            # events that an earlier, crashed call quarantined count as well, for they are reported nowhere else
            quarantined = [e for e in batch.bad if e.end <= batch.end.size or e in fresh]
            events = len(batch.whole) + len(batch.events) - len(misfits)
            self._count(quarantined, events, rows.num_rows, batch.end.size - place.landed.size)
            place = place.moved(landed=batch.end) if batch.has_moved else place

    def _append(self, table: DeltaTable, rows: pa.Table, batch: _Batch, place: Place) -> None:
        """Commit a batch; where keys were forgotten meanwhile, anew, or it is said that they must be forgotten again."""
        commit(
            table,
            rows,
            transactions=place.transactions(size=batch.end.size, digest=batch.end.digest),
            decoder=self.decoder,
            source=self.file.name,
            check_forgotten=lambda: self._check_forgotten(batch),
        )

    def _check_forgotten(self, batch: _Batch) -> None:
        """Refuse to go on where a key of the batch was forgotten: its values are in a file by now, committed or not."""
        self.decoder = self.decoder.reread()
        others = ((line, self._facts(line.line)) for line in batch.whole)
        for (_, line, _), facts in [*batch.events, *others]:
            if self.decoder.sifted(facts, line.content, line=line.number, offset=line.start)[1]:
                place = f"{self.file.name}:{line.number}"
                raise TransientError(f"{place}: its key was forgotten while it landed; run that `forget` again")

    def _quarantine(self, bad: list[BadEvent], place: Place) -> list[BadEvent]:
        decoder = self.decoder
        return put(
            decoder.raw,
            sorted(bad, key=lambda event: event.offset),
            place=place,
            source=self.file.name,
            format_name=decoder.format.name,
            landed_at=decoder.landed_at,
        )

    def _count(self, quarantined: list[BadEvent], events: int, facts: int, size: int) -> None:
        known = self.report
        bad = [event for event in quarantined if not event.is_settled]
        shown = known.rejections + tuple(Rejection(event.line, event.reason) for event in bad)
        self.report = replace(
            known,
            events=known.events + events,
            facts=known.facts + facts,
            quarantined=known.quarantined + len(bad),
            forgotten=known.forgotten + len(quarantined) - len(bad),
            landed_bytes=known.landed_bytes + size,
            rejections=shown[:SHOWN_REJECTIONS],
        )
        done = self.report.skipped_bytes + self.report.landed_bytes
        self.progress(self.report, done_bytes=done, total_bytes=self.file.size)

    def _batches(self, start: Prefix) -> Iterator[_Batch]:
        batch, digest, begun = _Batch(start), start.digest.copy(), start.size
        for line in self.file.lines(start):
            digest = digest if line.is_terminated else digest.copy()  # the batch may have to end before this line
            _take_in(digest, line)
            if _is_unfinished(line):
                batch.bad.append(_bad(_Line(0, line, _identity(digest)), UNFINISHED))
                break
            if not line.is_blank:
                batch.add(line, _identity(digest))
            batch.end = Prefix(line.end, line.number if line.is_terminated else line.number - 1, digest)
            if self._is_enough(batch, begun):
                self._decode(batch)
            if batch.is_full(self.batch_rows, begun):
                batch.end = replace(batch.end, digest=digest.copy())
                yield batch
                batch, begun = _Batch(batch.end), line.end
        self._decode(batch)
        if batch.has_moved or batch.bad:
            yield batch

    def _is_enough(self, batch: _Batch, begun: int) -> bool:
        """Whether a batch may be full once the lines that wait are decoded; where nothing is known of them, at each."""
        most = self.batch_rows - max(batch.facts, len(batch.bad)) if self.decoder.format.has_forms else 1
        return len(batch.waiting) >= most or batch.end.size - begun >= _BATCH_BYTES

    def _decode(self, batch: _Batch) -> None:
        waiting, batch.waiting = batch.waiting, []
        taken: set[int] = set()
        if not self.decoder.holds_back:
            contents = [line.line.content for line in waiting]
            lines = [line.line.number for line in waiting]
            for formed in self.reader.read(contents, lines=lines, landed_at=self.decoder.landed_at):
                taken.update(formed.events)
                batch.formed.append(replace(formed, events=[waiting[index].place for index in formed.events]))
        batch.whole += [waiting[index] for index in sorted(taken)]
        batch.facts += len(taken)
        for index, line in enumerate(waiting):
            if index not in taken:
                self._add(batch, line)

    def _facts(self, line: RawLine) -> list[Fact]:
        return self.decoder.facts(line.content, line=line.number, offset=line.start)

    def _add(self, batch: _Batch, found: _Line) -> None:
        line = found.line
        try:
            facts = self._facts(line)
        except MalformedEventError as error:
            batch.bad.append(_bad(found, str(error)))
            return
        facts, reason = self.decoder.sifted(facts, line.content, line=line.number, offset=line.start)
        if reason:
            found = found._replace(line=replace(line, content=NOT_KEPT))
            batch.bad.append(replace(_bad(found, reason), is_settled=True))
        if facts or not reason:
            batch.events.append((found, facts))
        batch.facts += len(facts)


def _is_unfinished(line: RawLine) -> bool:
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


def _bad(found: _Line, reason: str) -> BadEvent:
    line = found.line
    return BadEvent(found.identity, line.number, line.start, line.end, reason, line.content)
