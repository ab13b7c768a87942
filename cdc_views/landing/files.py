"""`land`: appends event files to a raw table, exactly once, in batches.

Each batch commits its rejected events to quarantine, then its rows to the raw table together with the new offset. A crash
between the two repeats the batch; quarantine recognizes its events.

A file's last line may lack its newline. If it is whole JSON, it is an event. Otherwise the file was cut short or is still
being written: the line goes to quarantine and the offset stays before it, so that the whole line lands once the file has grown.

A file is identified by the digests of its first line (its *head*) and of the prefix that landed; its name, folder and
compression do not matter. Each file with the same first line gets a *slot* of its own under that head. Delta keeps one
integer under each transaction id:

=======================  ==============================================================
transaction id           integer
=======================  ==============================================================
`head:<head>`            how many slots the head has
`offset:<head>:<slot>`   bytes landed of that slot's file
`digest:<head>:<slot>`   the first 63 bits of the SHA-256 of those bytes
`check:<head>:<slot>`    the next 63 bits
=======================  ==============================================================

The commit that adds the rows records these ids. A look-up replays the table's log (a millisecond or more), so each file has few.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from cdc_views.errors import MalformedEventError, WrongFileError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.batches import BATCH_ROWS, FileBatch, batches, is_unfinished
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.denylist import Denylist
from cdc_views.landing.formed import FormReader
from cdc_views.landing.pipeline import commit
from cdc_views.landing.quarantine import put, resolve_fragment
from cdc_views.landing.raw_table import landing_log, raw_log
from cdc_views.landing.report import SHOWN_REJECTIONS, FileReport, LandingReport, Progress
from cdc_views.landing.sources import Digest, EventFile, Prefix, RawLine, opened
from cdc_views.rules.instants import micros
from cdc_views.storage.conflicts import ATTEMPTS, retried
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog

_BITS_63 = (1 << 63) - 1


def _halves(digest: Digest) -> tuple[int, int]:
    full = digest.digest()
    return int.from_bytes(full[:8], "big") & _BITS_63, int.from_bytes(full[8:16], "big") & _BITS_63


_FEWEST_BAD = 20  # `land` may refuse a file that starts with so many bad events; fewer go to quarantine
_MOST_TRIED = 1_000  # events to try; `land` also refuses a file whose first good event comes later (`--force` lands it)


def land(
    raw: RawTable,
    format: RawFormat,
    files: Iterable[str | Path],
    *,
    now: datetime,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
    forgotten: Denylist | None = None,
    refuses_wrong_files: bool = False,
) -> LandingReport:
    """Append event files to the raw table, which is created if it is missing.

    Skips what landed before, under any name; a call that finds nothing new commits nothing. Bad events go to quarantine with a
    reason; the others land.

    Args:
        raw: The raw table and its schema.
        format: The raw format of the events.
        files: Paths of plain or gzip files, or `-` for standard input; all must exist before any is landed.
        now: The landing time of the new rows; UTC if it has no zone.
        batch_rows: Facts per commit, give or take one event; twice as many if each event gives two.
        progress: Called after each commit.
        forgotten: Keys whose older events go to quarantine without their bytes.
        refuses_wrong_files: Whether to refuse a new file, and land nothing, if none of its first events decodes.

    Raises:
        WrongFileError: `land` refuses a file.
        SourceFileError: A file is missing or unreadable.
        UsageError: The raw table belongs to another table, another format or a newer version.
        TransientError: Other writers kept committing first.
    """
    decoder = Decoder(raw, format, micros(now), forgotten)
    with opened(files) as found:
        if refuses_wrong_files:
            _check_files(decoder, found)
        target = _DeltaTarget(decoder, landing_log(raw, format_name=format.name))
        return land_into(target, decoder, found, batch_rows=batch_rows, progress=progress)


class LandedFile(Protocol):
    """One file and its progress in one raw table."""

    @property
    def landed(self) -> Prefix:
        """The prefix that has landed."""

    def resolve_fragment(self, line: RawLine) -> None:
        """Resolve the start of `line` in quarantine, if the file once ended inside the line."""

    def commit(self, batch: FileBatch, rows: pa.Table) -> None:
        """Commit the rejected events, then the rows together with the new prefix.

        Removes an unfinished line that is already in quarantine from `batch.rejected`. Raises `ConflictError` if somebody else
        committed first; then it writes no row.
        """


class FileTarget(Protocol):
    """A raw table into which files land; `attempts` limits the retries after other writers committed first."""

    attempts: int

    def locate(self, file: EventFile) -> LandedFile:
        """Look up how far a file has landed."""

    def batch(self, decoder: Decoder, start: Prefix) -> FileBatch:
        """Return an empty batch that begins after `start`."""


def land_into(
    target: FileTarget,
    decoder: Decoder,
    files: Sequence[EventFile],
    *,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
) -> LandingReport:
    """Land files one after another; see `land`."""
    landings = (_FileLanding(target, decoder, file, batch_rows, progress) for file in files)
    return LandingReport(decoder.raw.relation.schema.full_name, tuple(landing.run() for landing in landings))


@dataclass(slots=True)
class _FileLanding:
    """One file that lands; `report` counts what all attempts landed."""

    target: FileTarget
    decoder: Decoder
    file: EventFile
    batch_rows: int
    progress: Progress | None
    report: FileReport = field(init=False)

    def run(self) -> FileReport:
        self.report = FileReport(self.file.name)
        message = f"{self.file.name}: other writers kept committing to {self.decoder.raw.location}; run it again"
        retried(self._land_rest, what=message, attempts=self.target.attempts)
        return self.report

    def _land_rest(self) -> None:
        """Land the rest of the file; another process or an earlier attempt may have landed a part."""
        decoder = self.decoder = self.decoder.reread()
        known = self.target.locate(self.file)
        start = known.landed
        self.report = replace(self.report, skipped_bytes=start.size - self.report.landed_bytes)
        line = next(iter(self.file.lines(start)), None)
        if line is not None and not is_unfinished(line):
            known.resolve_fragment(line)
        read = batches(self.file, start, batch_rows=self.batch_rows, new=lambda after: self.target.batch(decoder, after))
        for batch in read:
            rows = batch.rows()
            batch.rejected.sort(key=lambda one: one.event.offset)
            known.commit(batch, rows)
            self._count(batch, rows.num_rows, size=batch.end.size - start.size)
            start = batch.end

    def _count(self, batch: FileBatch, facts: int, *, size: int) -> None:
        known, quarantined = self.report, batch.quarantined
        self.report = replace(
            known,
            events=known.events + batch.landed,
            facts=known.facts + facts,
            quarantined=known.quarantined + len(quarantined),
            forgotten=known.forgotten + batch.forgotten,
            landed_bytes=known.landed_bytes + size,
            rejections=(known.rejections + quarantined)[:SHOWN_REJECTIONS],
        )
        if self.progress is not None:
            done = self.report.skipped_bytes + self.report.landed_bytes
            self.progress(self.report, done_bytes=done, total_bytes=self.file.size)


@dataclass(slots=True)
class _DeltaTarget:
    """A raw table in Delta; `newest` is its log, None once somebody else may have landed."""

    decoder: Decoder
    newest: TableLog | None
    attempts: int = ATTEMPTS
    reader: FormReader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = FormReader(self.decoder.raw.relation, self.decoder.format)

    def locate(self, file: EventFile) -> LandedFile:
        log, self.newest = self.newest or landing_log(self.decoder.raw, format_name=self.decoder.format.name), None
        return _DeltaFile(log, self.decoder.raw, file.name, *_located(log, file))

    def batch(self, decoder: Decoder, start: Prefix) -> FileBatch:
        return FileBatch(decoder, self.reader, end=start)


@dataclass(slots=True)
class _DeltaFile:
    """The progress of a file: its head, its slot, whether the slot is new, and the prefix that has landed."""

    log: TableLog
    raw: RawTable
    name: str
    head: str
    slot: int
    is_new: bool
    landed: Prefix

    def resolve_fragment(self, line: RawLine) -> None:
        resolve_fragment(self.raw, landed=self.landed, line=line)

    def commit(self, batch: FileBatch, rows: pa.Table) -> None:
        end = batch.end
        fresh = put(batch.decoder, batch.rejected, mark=f"head:{self.head}")
        if batch.has_moved:
            first, second = _halves(end.digest)
            key = f"{self.head}:{self.slot}"
            reached = {f"offset:{key}": end.size, f"digest:{key}": first, f"check:{key}": second}
            if self.is_new:
                reached[f"head:{self.head}"] = self.slot + 1
            self.log = commit(self.log, rows, batch, transactions=reached, source=self.name)
            self.is_new, self.landed = False, end
        # also count events that an earlier, crashed call quarantined: no other report has them
        batch.rejected = [one for one in batch.rejected if one.event.end <= end.size or one in fresh]


def _located(log: TableLog, file: EventFile) -> tuple[str, int, bool, Prefix]:
    """Return a file's head, its slot, whether the slot is new, and the longest landed prefix with which the file begins."""
    head = hashlib.sha256(file.head()).hexdigest()
    slots = log.transaction(f"head:{head}") or 0
    landed = {slot: log.transaction(f"offset:{head}:{slot}") or 0 for slot in range(slots)}
    found = head, slots, True, Prefix()
    for prefix in file.prefixes(landed.values()) if slots else ():
        halves = _halves(prefix.digest)
        for slot in (slot for slot, size in landed.items() if size == prefix.size):
            if (log.transaction(f"digest:{head}:{slot}"), log.transaction(f"check:{head}:{slot}")) == halves:
                found = head, slot, False, prefix
                break
    return found


def _check_files(decoder: Decoder, files: Iterable[EventFile]) -> None:
    """Raise `WrongFileError` if none of a new file's first events decodes: it seems to have another format."""
    log = raw_log(decoder.raw)
    for file in files:
        if log is None or _located(log, file)[-1].size == 0:
            _check_file(decoder, file)


def _check_file(decoder: Decoder, file: EventFile) -> None:
    count, first = 0, ""
    for line in islice(file.lines(Prefix()), _MOST_TRIED):
        try:
            decoder.facts(line.content, line=line.number, offset=line.start)
            return
        except MalformedEventError as error:
            count, first = count + 1, first or f"{file.name}:{line.number}: {error}"
    if count >= _FEWEST_BAD:
        raise WrongFileError(
            f"{first}; none of the first {count:,} events can be read as {decoder.format.name}, so nothing was done; "
            "name the format and table that they are of, or land them with --force"
        )
