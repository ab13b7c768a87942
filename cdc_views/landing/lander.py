"""`land`: event files into a raw table, exactly once, in batches.

For each batch the bad events are committed to quarantine first, then the good ones to the raw table together with
the offset reached (see `offsets`). A crash between the two repeats the batch, and quarantine knows its events.

A file's last line may lack its newline. If it is whole JSON it is an event. If not, the file was cut short or is
still being written: the line goes to quarantine, and the offset stays before it, so that the line lands whole
once the file has grown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import TransientError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.batches import BATCH_ROWS, Batch, Batches, is_unfinished
from cdc_views.landing.committing import commit
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.forgotten import Forgotten
from cdc_views.landing.offsets import Place, locate
from cdc_views.landing.quarantine import BadEvent, put, settle_fragment
from cdc_views.landing.raw_table import create_raw
from cdc_views.landing.refusing import check_files
from cdc_views.landing.report import SHOWN_REJECTIONS, FileReport, LandingReport, Progress, Rejection, no_progress
from cdc_views.landing.sources import EventFile, opened
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def land(
    raw: RawTable,
    format: RawFormat,
    files: Iterable[str | Path],
    *,
    now: datetime,
    batch_rows: int = BATCH_ROWS,
    progress: Progress | None = None,
    forgotten: Forgotten | None = None,
    refuses_wrong_files: bool = False,
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
        refuses_wrong_files: Whether a new file is refused, and nothing done, of whose beginning no event decodes.

    Raises:
        WrongFileError: Such a file.
        SourceFileError: A file is missing or unreadable.
        UsageError: The raw table belongs to another table, another format or a newer version.
        TransientError: Other writers kept committing first.
    """
    with opened(files) as found:
        decoder, reports = Decoder(raw, format, micros(now), forgotten), []
        if refuses_wrong_files:
            check_files(decoder, found)
        table: DeltaTable | None = create_raw(raw, format_name=format.name)
        for file in found:
            reports.append(_Landing(Batches(decoder, file, batch_rows), progress or no_progress, table).run())
            table = None  # others may have landed while this one did
        return LandingReport(raw.relation.schema.full_name, tuple(reports))


def micros(now: datetime) -> int:
    """Return µs since the epoch; a time without a zone is UTC."""
    aware = now if now.tzinfo else now.replace(tzinfo=timezone.utc)
    return (aware - _EPOCH) // timedelta(microseconds=1)


@dataclass(slots=True)
class _Landing:
    """One file being landed; `newest` is the raw table if it has just been opened."""

    batches: Batches
    progress: Progress
    newest: DeltaTable | None = None
    report: FileReport = field(init=False)

    @property
    def file(self) -> EventFile:
        return self.batches.file

    @property
    def decoder(self) -> Decoder:
        return self.batches.decoder

    def run(self) -> FileReport:
        self.report = FileReport(self.file.name)
        message = f"{self.file.name}: other writers kept committing to {self.decoder.raw.location}; run it again"
        retried(self._land_rest, what=message)
        return self.report

    def _land_rest(self) -> None:
        self.batches.decoder = self.decoder.reread()
        table, self.newest = self.newest or create_raw(self.decoder.raw, format_name=self.decoder.format.name), None
        place = locate(table, self.file)
        self.report = replace(self.report, skipped_bytes=place.landed.size - self.report.landed_bytes)
        line = next(iter(self.file.lines(place.landed)), None)
        if line is not None and not is_unfinished(line):
            settle_fragment(self.decoder.raw, landed=place.landed, line=line)
        for batch in self.batches.after(place.landed):
            rows = batch.rows(self.decoder)
            fresh = self._quarantine(batch.bad, place)
            if batch.has_moved:
                self._append(table, rows, batch, place)
            # events that an earlier, crashed call quarantined count as well, for they are reported nowhere else
            quarantined = [e for e in batch.bad if e.end <= batch.end.size or e in fresh]
            self._count(quarantined, batch.landed, rows.num_rows, batch.end.size - place.landed.size)
            place = place.moved(landed=batch.end) if batch.has_moved else place

    def _append(self, table: DeltaTable, rows: pa.Table, batch: Batch, place: Place) -> None:
        """Commit a batch; where keys were forgotten meanwhile, anew, or it is said that they must be forgotten again."""
        commit(
            table,
            rows,
            transactions=place.transactions(size=batch.end.size, digest=batch.end.digest),
            decoder=self.decoder,
            source=self.file.name,
            check_forgotten=lambda: self._check_forgotten(batch),
        )

    def _check_forgotten(self, batch: Batch) -> None:
        """Refuse to go on where a key of the batch was forgotten: its values are in a file by now, committed or not."""
        self.batches.decoder = self.decoder.reread()
        others = ((line, self.batches.facts(line.line)) for line in batch.whole)
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
