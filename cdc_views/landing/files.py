"""`land`: appends event files to a raw table, exactly once, in batches.

Each batch commits its rejected events to quarantine, then its rows to the raw table together with the new offset. A crash
between the two repeats the batch; quarantine recognizes its events.

A file's last line may lack its newline. If it is whole JSON, it is an event. Otherwise the file was cut short or is still
being written: the line goes to quarantine and the offset stays before it, so that the whole line lands once the file has grown.

`file_ids` tells how the log knows a file. A look-up replays the table's log (a millisecond or more), so each file has few ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol, TypedDict

import pyarrow as pa

from cdc_views.errors import MalformedEventError, WrongFileError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.backfill import land_new
from cdc_views.landing.batches import BATCH_ROWS, FileBatch, batches, is_unfinished, with_batch
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.denylist import Denylist
from cdc_views.landing.file_ids import LandedFile, halves
from cdc_views.landing.formed import FormReader
from cdc_views.landing.pipeline import commit
from cdc_views.landing.quarantine import put, resolve_fragment
from cdc_views.landing.raw_table import landing_log, raw_log
from cdc_views.landing.report import FileReport, LandingReport, Progress, ReadingProgress
from cdc_views.landing.sources import EventFile, Prefix, RawLine, opened
from cdc_views.landing.spreading import Tasks
from cdc_views.rules.instants import micros
from cdc_views.storage.conflicts import ATTEMPTS, retried
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog

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
    tasks: Tasks | None = None,
) -> LandingReport:
    """Append event files to the raw table, which is created if it is missing. Bad events go to quarantine; the others land.

    Skips what landed before, under any name; a call that finds nothing new commits nothing.

    Args:
        raw: The raw table and its schema.
        format: The raw format of the events.
        files: Paths or URLs (`*`: any name) of plain or gzip files, or `-`: standard input; all must exist before any lands.
        now: The landing time of the new rows; UTC if it has no zone.
        batch_rows: Facts per commit, give or take one event; twice as many if each event gives two.
        progress: Called after each commit.
        forgotten: Keys whose older events go to quarantine without their bytes.
        refuses_wrong_files: Whether to refuse a new file, and land nothing, if none of its first events decodes.
        tasks: Read new files at once; see `backfill`. None: one file after the other.

    Raises:
        WrongFileError, SourceFileError: `land` refuses a file; a file is missing or unreadable.
        UsageError: The raw table belongs to another table, another format or a newer version.
        TransientError: Other writers kept committing first.
    """
    decoder = Decoder(raw, format, micros(now), forgotten)
    with opened(files) as found:
        if refuses_wrong_files:
            _check_files(decoder, found)
        log, how = landing_log(raw, format_name=format.name), _How(batch_rows=batch_rows, progress=progress)
        done = {} if tasks is None else land_new(log, decoder, found, tasks, **how)
        rest = [file for index, file in enumerate(found) if index not in done]
        return land_into(_DeltaTarget(decoder, None if done else log), decoder, rest, **how).among(done)


class _How(TypedDict):
    batch_rows: int
    progress: Progress | None


class FileProgress(Protocol):
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

    def locate(self, file: EventFile) -> FileProgress:
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
        passed = self._passed if isinstance(self.progress, ReadingProgress) else None
        new = partial(self.target.batch, decoder)
        read = batches(self.file, start, batch_rows=self.batch_rows, new=new, passed=passed)
        for batch in read:
            rows = batch.rows()
            batch.rejected.sort(key=lambda one: one.event.offset)
            known.commit(batch, rows)
            self._count(batch, rows.num_rows, size=batch.end.size - start.size)
            start = batch.end

    def _passed(self, offset: int) -> None:
        assert isinstance(self.progress, ReadingProgress)
        self.progress.read(self.report, done_bytes=offset, total_bytes=self.file.size)

    def _count(self, batch: FileBatch, facts: int, *, size: int) -> None:
        self.report = with_batch(self.report, batch, facts=facts, size=size)
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

    def locate(self, file: EventFile) -> FileProgress:
        log, self.newest = self.newest or landing_log(self.decoder.raw, format_name=self.decoder.format.name), None
        return _DeltaFile(log, self.decoder.raw, file.name, LandedFile.of(log, file))

    def batch(self, decoder: Decoder, start: Prefix) -> FileBatch:
        return FileBatch(decoder, self.reader, end=start)


@dataclass(slots=True)
class _DeltaFile:
    """The progress of a file."""

    log: TableLog
    raw: RawTable
    name: str
    known: LandedFile

    @property
    def landed(self) -> Prefix:
        return self.known.prefix

    def resolve_fragment(self, line: RawLine) -> None:
        resolve_fragment(self.raw, landed=self.landed, line=line)

    def commit(self, batch: FileBatch, rows: pa.Table) -> None:
        end = batch.end
        fresh = put(batch.decoder, batch.rejected, mark=f"head:{self.known.head}")
        if batch.has_moved:
            reached = self.known.reached(end.size, halves(end.digest))
            self.log = commit(self.log, rows, batch, transactions=reached, source=self.name)
            self.known = self.known.after(end)
        # also count events that an earlier, crashed call quarantined: no other report has them
        batch.rejected = [one for one in batch.rejected if one.event.end <= end.size or one in fresh]


def _check_files(decoder: Decoder, files: Iterable[EventFile]) -> None:
    """Raise `WrongFileError` if none of a new file's first events decodes: it seems to have another format."""
    log = raw_log(decoder.raw)
    for file in files:
        if log is None or LandedFile.of(log, file).prefix.size == 0:
            _check_file(decoder, file)


def _check_file(decoder: Decoder, file: EventFile) -> None:
    count, first = 0, ""
    for line in islice(file.lines(Prefix()), _MOST_TRIED):
        try:
            decoder.facts_as_written(line.content, line=line.number, offset=line.start)
            return
        except MalformedEventError as error:
            count, first = count + 1, first or f"{file.name}:{line.number}: {error}"
    if count >= _FEWEST_BAD:
        raise WrongFileError(
            f"{first}; none of the first {count:,} events can be read as {decoder.format.name}, so nothing was done; "
            "name the format and table that they are of, or land them with --force"
        )
