"""`land` and `replay` into a raw table in BigQuery: each event once, bad events into a quarantine table.

A file is known by its content, as in `cdc_views.landing.files`: by the digests of its first line and of its landed prefix. The
transaction that adds the rows writes both into the marks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from cdc_views.engines.warehouses import Lands
from cdc_views.landing.batches import FileBatch
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.files import FileProgress, FileTarget, land_into
from cdc_views.landing.pipeline import Batch
from cdc_views.landing.quarantine import RawEvent, is_start
from cdc_views.landing.report import SHOWN_REJECTIONS, LandingReport, Progress, ReplayReport
from cdc_views.landing.sources import EventFile, Prefix, RawLine, opened
from cdc_views.storage.conflicts import retried
from cdc_views_bigquery.incoming import QUARANTINE, Commit, Incoming, rows_that_fit
from cdc_views_bigquery.telling import ATTEMPTS, PAUSE_SECONDS
from cdc_views_bigquery.types import quoted, text_literal

_REPLAYS = "replays"


@dataclass(slots=True)
class BigQueryLanding(FileTarget, Lands):
    """Lands into one raw table."""

    incoming: Incoming
    decoder: Decoder
    attempts: int = ATTEMPTS

    def land(self, files: Iterable[str | Path], *, progress: Progress | None = None) -> LandingReport:
        with opened(files) as found:
            self.incoming.prepare()
            return land_into(self, self.decoder, found, progress=progress)

    def batch(self, decoder: Decoder, start: Prefix) -> FileBatch:
        # no reader of forms: nulls that BigQuery cannot keep are looked for event by event
        return FileBatch(decoder, fit=rows_that_fit, end=start)

    def locate(self, file: EventFile) -> FileProgress:
        head = f"file:{hashlib.sha256(file.head()).hexdigest()}:"
        marks = self.incoming.marks(head)
        sizes = {int(value.partition(":")[0]) for value in marks.values()}
        best: _BigQueryFile | None = None
        for prefix in file.prefixes(sizes) if marks else ():
            value = f"{prefix.size}:{prefix.digest.digest().hex()}"
            name = next((name for name, known in marks.items() if known == value), None)
            best = best if name is None else _BigQueryFile(self.incoming, file.name, name, value, prefix)
        return best or _BigQueryFile(self.incoming, file.name, f"{head}{len(marks)}", "", Prefix())

    def replay(self) -> ReplayReport:
        """As `Lands.replay`, in one commit: a transaction covers quarantine and raw together."""
        self.incoming.prepare()
        message = f"{self.incoming.name}: others kept landing; run replay again"
        return retried(self._replayed, what=message, attempts=ATTEMPTS, pause=PAUSE_SECONDS)

    def _replayed(self) -> ReplayReport:
        known = self.incoming.marks(_REPLAYS).get(_REPLAYS, "")
        columns = "event_id, source, line, `offset`, event"
        text = f"SELECT {columns} FROM {quoted(self.incoming.name + QUARANTINE)} WHERE replay IS NULL ORDER BY source, `offset`"
        batch = Batch(self.decoder.reread(), fit=rows_that_fit)
        for row in self.incoming.connection.rows(text, what="reading quarantine").to_pylist():
            batch.add(RawEvent(row["source"], row["event_id"], row["event"], row["line"], row["offset"]))
        rows, landing = batch.rows(), [event.event_id for event in batch.decoded]
        if landing:
            number = int(known or 0) + 1
            marks = {_REPLAYS: str(number)}
            self.incoming.commit(Commit(batch.decoder, rows, known={_REPLAYS: known}, marks=marks, replayed=(landing, number)))
        name, waiting = self.incoming.raw.relation.schema.full_name, batch.quarantined
        return ReplayReport(name, batch.landed, rows.num_rows, len(waiting), waiting[:SHOWN_REJECTIONS], batch.forgotten)


@dataclass(slots=True)
class _BigQueryFile:
    """A `FileProgress`: its mark, the mark's value as read (empty if there is none), and the prefix that has landed."""

    incoming: Incoming
    name: str
    mark: str
    known: str
    landed: Prefix
    resolved: Sequence[str] = ()
    """Ids of starts of the next line; they went to quarantine when the file still ended inside it."""

    def resolve_fragment(self, line: RawLine) -> None:
        table = quoted(self.incoming.name + QUARANTINE)
        waits = f"SELECT event_id, event FROM {table} WHERE `offset` = {line.start} AND replay IS NULL"
        found = self.incoming.connection.rows(waits, what="looking for the start of an event").to_pylist()
        self.resolved = [row["event_id"] for row in found if is_start(**row, line=line, landed=self.landed)]

    def commit(self, batch: FileBatch, rows: pa.Table) -> None:
        batch.rejected = [one for one in batch.rejected if one.event.end <= batch.end.size or not self._has(one.event.event_id)]
        if not (batch.has_moved or batch.rejected):
            return
        mark = f"{batch.end.size}:{batch.end.digest.digest().hex()}"
        self.incoming.commit(
            Commit(
                batch.decoder,
                rows,
                rejected=batch.rejected,
                known={self.mark: self.known},
                marks={self.mark: mark} if batch.has_moved else {},
                resolved=self.resolved if batch.has_moved else (),
            )
        )
        if batch.has_moved:
            self.known, self.landed, self.resolved = mark, batch.end, ()

    def _has(self, event_id: str) -> bool:
        """Return whether an earlier call put the start of an event, inside which the file ends, into quarantine."""
        known = f"SELECT event_id FROM {quoted(self.incoming.name + QUARANTINE)} WHERE event_id = {text_literal(event_id)}"
        return bool(self.incoming.connection.rows(known, what="looking for the start of an event").num_rows)
