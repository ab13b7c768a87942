"""`land` and `replay` into a raw table in BigQuery: each event once, bad ones into a quarantine table.

A file is known by its content, as in `cdc_views.landing.offsets`: the digest of its first line, and of the prefix that
landed. Both stand in the marks, which the transaction writes that adds the rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cdc_views.errors import MalformedEventError, TransientError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.batches import BATCH_ROWS, Batch, Batches, is_unfinished
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.lander import micros
from cdc_views.landing.quarantine import is_start
from cdc_views.landing.report import (
    SHOWN_REJECTIONS,
    FileReport,
    LandingReport,
    Progress,
    Rejection,
    ReplayReport,
    no_progress,
)
from cdc_views.landing.sources import EventFile, Prefix, opened
from cdc_views.rules.facts import Fact
from cdc_views_bigquery.incoming import QUARANTINE, Commit, Incoming, Marks, rows_that_fit
from cdc_views_bigquery.telling import ConcurrentUpdateError
from cdc_views_bigquery.types import quoted, text_literal

ATTEMPTS = 5
_REPLAYS = "replays"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a file stands: its mark, what was read of it (empty: it has none), and the prefix that has landed."""

    mark: str
    known: str
    landed: Prefix


@dataclass(slots=True)
class Landing:
    """Lands into one raw table; `batch_rows`: facts that a commit holds."""

    incoming: Incoming
    format: RawFormat
    now: datetime
    batch_rows: int = BATCH_ROWS

    @property
    def _decoder(self) -> Decoder:
        return Decoder(self.incoming.raw, self.format, micros(self.now))

    def land(self, files: Iterable[str | Path], *, progress: Progress | None = None) -> LandingReport:
        """See `cdc_views.landing.land`."""
        with opened(files) as found:
            self.incoming.prepare()
            reports = tuple(self._file(file, progress or no_progress) for file in found)
        return LandingReport(self.incoming.raw.relation.schema.full_name, reports)

    def _file(self, file: EventFile, progress: Progress) -> FileReport:
        landed = FileReport(file.name)
        for _ in range(ATTEMPTS):
            try:
                for report in self._rest(file, landed):
                    landed = report
                    done = landed.skipped_bytes + landed.landed_bytes
                    progress(landed, done_bytes=done, total_bytes=file.size)
                return landed
            except ConcurrentUpdateError:
                continue  # somebody else landed: look again where the file stands
        raise TransientError(f"{file.name}: others kept landing into {self.incoming.name}; run it again")

    def _rest(self, file: EventFile, report: FileReport) -> Iterator[FileReport]:
        place = self._located(file)
        report = replace(report, skipped_bytes=place.landed.size - report.landed_bytes)
        yield report
        settled = self._fragment(file, place)
        # events are decoded one by one: which of them holds a null that BigQuery cannot keep is asked of each
        for batch in Batches(self._decoder, file, self.batch_rows, reads_forms=False).after(place.landed):
            rows = batch.rows(self._decoder, rows_that_fit)
            self._forget_known(batch)
            if not (batch.has_moved or batch.bad):
                break
            mark = f"{batch.end.size}:{batch.end.digest.digest().hex()}"
            self.incoming.commit(
                Commit(
                    rows,
                    bad=sorted(batch.bad, key=lambda event: event.offset),
                    source=file.name,
                    format_name=self.format.name,
                    landed_at=micros(self.now),
                    known={place.mark: place.known},
                    marks={place.mark: mark} if batch.has_moved else {},
                    settled=settled if batch.has_moved else (),
                )
            )
            report = _counted(report, batch, facts=rows.num_rows, since=place.landed)
            if batch.has_moved:
                place, settled = _Place(place.mark, mark, batch.end), []
            yield report

    def _forget_known(self, batch: Batch) -> None:
        """Leave out the start of an event at the file's end that an earlier call has put into quarantine."""
        starts = [event for event in batch.bad if event.end > batch.end.size]
        for event in starts:
            table, identity = quoted(self.incoming.name + QUARANTINE), text_literal(event.event_id)
            known = f"SELECT event_id FROM {table} WHERE event_id = {identity}"
            if self.incoming.connection.rows(known, what="looking for the start of an event").num_rows:
                batch.bad.remove(event)

    def _located(self, file: EventFile) -> _Place:
        """The longest landed prefix that the file's content begins with."""
        head = f"file:{hashlib.sha256(file.head()).hexdigest()}:"
        marks = self.incoming.marks(head)
        sizes = {int(value.partition(":")[0]) for value in marks.values()}
        best: _Place | None = None
        for prefix in file.prefixes(sizes) if marks else ():
            value = f"{prefix.size}:{prefix.digest.digest().hex()}"
            found = next((name for name, known in marks.items() if known == value), None)
            best = best if found is None else _Place(found, value, prefix)
        return best or _Place(f"{head}{len(marks)}", "", Prefix())

    def _fragment(self, file: EventFile, place: _Place) -> list[str]:
        """Ids of starts of the next line that went to quarantine when the file still ended inside it."""
        line = next(iter(file.lines(place.landed)), None)
        if line is None or is_unfinished(line):
            return []
        table = quoted(self.incoming.name + QUARANTINE)
        waits = f"SELECT event_id, event FROM {table} WHERE `offset` = {line.start} AND replay IS NULL"
        found = self.incoming.connection.rows(waits, what="looking for the start of an event").to_pylist()
        return [row["event_id"] for row in found if is_start(**row, line=line, landed=place.landed)]

    def replay(self) -> ReplayReport:
        """See `cdc_views.landing.replay`; one commit, since a transaction holds quarantine and raw together."""
        self.incoming.prepare()
        for _ in range(ATTEMPTS):
            try:
                return self._replayed()
            except ConcurrentUpdateError:
                continue
        raise TransientError(f"{self.incoming.name}: others kept landing; run replay again")

    def _replayed(self) -> ReplayReport:
        marks: Marks = self.incoming.marks(_REPLAYS)
        columns = "event_id, line, `offset`, reason, event"
        text = f"SELECT {columns} FROM {quoted(self.incoming.name + QUARANTINE)} WHERE replay IS NULL ORDER BY source, `offset`"
        waiting = self.incoming.connection.rows(text, what="reading quarantine").to_pylist()
        facts: dict[int, list[Fact]] = {}
        reasons: dict[int, str] = {}
        for index, row in enumerate(waiting):
            try:
                facts[index] = self._decoder.facts(row["event"], line=row["line"], offset=row["offset"])
            except MalformedEventError as error:
                reasons[index] = str(error)
        decoded = list(facts)
        rows, misfits = rows_that_fit(self._decoder, list(facts.values()))
        reasons |= {decoded[n]: reason for n, reason in misfits.items()}
        good = [row["event_id"] for index, row in enumerate(waiting) if index not in reasons]
        refused = [Rejection(row["line"], reasons[index]) for index, row in enumerate(waiting) if index in reasons]
        if good:
            number = int(marks.get(_REPLAYS, "0")) + 1
            known = {_REPLAYS: marks.get(_REPLAYS, "")}
            self.incoming.commit(Commit(rows, known=known, marks={_REPLAYS: str(number)}, replayed=(good, number)))
        name = self.incoming.raw.relation.schema.full_name
        return ReplayReport(name, len(good), rows.num_rows, len(refused), tuple(refused[:SHOWN_REJECTIONS]))


def _counted(report: FileReport, batch: Batch, *, facts: int, since: Prefix) -> FileReport:
    shown = report.rejections + tuple(Rejection(event.line, event.reason) for event in batch.bad)
    return replace(
        report,
        events=report.events + batch.landed,
        facts=report.facts + facts,
        quarantined=report.quarantined + len(batch.bad),
        landed_bytes=report.landed_bytes + batch.end.size - since.size,
        rejections=shown[:SHOWN_REJECTIONS],
    )
