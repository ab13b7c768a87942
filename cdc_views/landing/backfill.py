"""Many new files at once: tasks of an engine read them, each writes the rows of one, and a commit lets some hundred count.

The ids in Delta's log are those of `files`, so either continues what the other landed. What a task cannot do alone is left to
`files`: a file that has landed in part, is named twice, has no whole event, or cannot be read to its end. No file lands twice: a
commit conflicts with any other that landed one of its files meanwhile, and `files` looks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

import pyarrow as pa

from cdc_views.errors import SourceFileError, TransientError
from cdc_views.landing.appending import is_ready_for, with_files
from cdc_views.landing.batches import FileBatch, batches, is_unfinished, with_batch
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import NewFile, append, open_delta, write_file
from cdc_views.landing.file_ids import LandedFile, halves
from cdc_views.landing.formed import FormReader
from cdc_views.landing.pipeline import check_current
from cdc_views.landing.quarantine import put, resolve_fragment
from cdc_views.landing.report import FileReport, Progress
from cdc_views.landing.sources import EventFile, Prefix
from cdc_views.landing.spreading import Spread, Tasks, leaving_nothing
from cdc_views.storage.conflicts import ConflictError, retried
from cdc_views.storage.places import place_of
from cdc_views.storage.table_log import TableLog

_WAVE_FILES, _WAVE_BYTES = 256, 8 << 30
"""Of event files, for one commit."""
_FILE_ROWS = 2_000_000
"""Of a file that a task writes; an event file with more becomes several."""


@dataclass(frozen=True, slots=True)
class FileTask:
    """A new event file and its head; `name` begins the names of the files that its rows go to."""

    name: str
    file: EventFile
    head: str
    decoder: Decoder
    batch_rows: int


@dataclass(frozen=True, slots=True)
class FileDone:
    """What became of a file: its rows, in files that no commit names yet, and how far it was read (bytes, and their digest)."""

    report: FileReport
    files: tuple[NewFile, ...]
    size: int
    digest: tuple[int, int]


def land_new(
    log: TableLog, decoder: Decoder, files: Sequence[EventFile], tasks: Tasks, *, batch_rows: int, progress: Progress | None
) -> dict[int, FileReport]:
    """Land the new ones of `files` if they are worth tasks; return their reports by index. The others are to do."""
    relation = decoder.raw.relation
    new = [] if decoder.has_secret else _new(log, files)
    if len(new) < 2 or sum(file.stored_bytes for _, file, _ in new) < tasks.least_bytes:
        return {}
    if not is_ready_for(log, relation.arrow_schema()):
        append(open_delta(log.location, version=log.version), relation.arrow_schema().empty_table(), transactions={})
        log = log.refreshed()
    backfill = _Backfill(log, decoder, tasks.spread, batch_rows, progress)
    for wave in _waves(new):
        try:
            backfill.land(wave)
        except ConflictError:
            backfill.log = backfill.log.refreshed()  # or what came first would be in the way of the next wave, too
    return backfill.reports


def _new(log: TableLog, files: Iterable[EventFile]) -> list[tuple[int, EventFile, LandedFile]]:
    """Return the files of which nothing has landed, one for each first line."""
    found, heads = list[tuple[int, EventFile, LandedFile]](), set[str]()
    for index, file in enumerate(files):
        landed = LandedFile.of(log, file)
        if landed.is_new and landed.has_events and landed.head not in heads:
            found.append((index, file, landed))
        heads.add(landed.head)
    return found


def _waves(new: Iterable[tuple[int, EventFile, LandedFile]]) -> Iterator[list[tuple[int, EventFile, LandedFile]]]:
    wave, size = list[tuple[int, EventFile, LandedFile]](), 0
    for one in new:
        if wave and (len(wave) >= _WAVE_FILES or size >= _WAVE_BYTES):
            yield wave
            wave, size = [], 0
        wave.append(one)
        size += one[1].stored_bytes
    if wave:
        yield wave


@dataclass(slots=True)
class _Backfill:
    log: TableLog
    decoder: Decoder
    spread: Spread
    batch_rows: int
    progress: Progress | None
    reports: dict[int, FileReport] = field(default_factory=dict)

    def land(self, wave: list[tuple[int, EventFile, LandedFile]]) -> None:
        """Land files in one commit. Raises `ConflictError` if somebody else landed one of them; then none is there."""
        # others may have landed since the call began; a commit looks at what came after `log` alone
        wave = [(index, file, landed) for index, file, landed in wave if landed.is_next_in(self.log)]
        if not wave:
            return
        name, location = f"part-{uuid4()}", self.decoder.raw.location
        tasks = [FileTask(name, file, landed.head, self.decoder, self.batch_rows) for _, file, landed in wave]
        sees = [location, *{str(file.path.parent): str(file.path) for _, file, _ in wave}.values()]
        with leaving_nothing(location, name):
            found = self.spread(land_file, tasks, sees=sees)
            check_current(self.decoder, source=location)
        done = [(index, landed, one) for (index, _, landed), one in zip(wave, found, strict=True) if one is not None]
        reached = {key: number for _, landed, one in done for key, number in landed.reached(one.size, one.digest).items()}
        if reached:
            self.log = with_files(self.log, [file for *_, one in done for file in one.files], transactions=reached)
        if not self.decoder.is_current():
            raise TransientError(f"{location}: keys were forgotten while events landed; run each `forget` of now again")
        for index, _, one in done:
            self.reports[index] = one.report
            if self.progress is not None:
                self.progress(one.report, done_bytes=one.size, total_bytes=one.size)


def land_file(task: FileTask) -> FileDone | None:
    """Write the rows of a file, and put what does not decode into quarantine; None if it is for `files` to do."""
    landing = _Landing(task)
    try:
        return landing.run()
    except SourceFileError:
        for file in landing.written:
            file.path.unlink(missing_ok=True)
        return None


@dataclass(slots=True)
class _Landing:
    """One file that a task lands; `end` is the prefix that was read."""

    task: FileTask
    written: list[NewFile] = field(default_factory=list)
    report: FileReport = field(init=False)
    end: Prefix = field(default_factory=Prefix)

    def run(self) -> FileDone | None:
        task, raw, name = self.task, self.task.decoder.raw, f"{self.task.name}-{uuid4()}"
        self.report = FileReport(task.file.name)
        first = next(iter(task.file.lines(Prefix())), None)
        if first is None or is_unfinished(first):
            return None
        retried(lambda: resolve_fragment(raw, landed=Prefix(), line=first), what=_BUSY.format(raw.location))
        rows = self._rows()
        for head in rows:
            path = place_of(raw.location) / f"{name}-{len(self.written)}.parquet"
            file = write_file(path, _up_to(_FILE_ROWS, head, rows), schema=raw.relation.arrow_schema())
            self.written += [] if file is None else [file]
        return FileDone(self.report, tuple(self.written), self.end.size, halves(self.end.digest))

    def _rows(self) -> Iterator[pa.Table]:
        task, mark = self.task, f"head:{self.task.head}"
        reader = FormReader(task.decoder.raw.relation, task.decoder.format)

        def new(after: Prefix) -> FileBatch:
            return FileBatch(task.decoder, reader, end=after)

        for batch in batches(task.file, Prefix(), batch_rows=task.batch_rows, new=new):
            rows = batch.rows()
            rejected = sorted(batch.rejected, key=lambda one: one.event.offset)
            # other tasks write to quarantine, too; a task that is run again counts what it put there
            retried(partial(put, task.decoder, rejected, mark=mark), what=_BUSY.format(task.decoder.raw.location))
            size = batch.end.size - self.end.size
            self.report, self.end = with_batch(self.report, batch, facts=rows.num_rows, size=size), batch.end
            yield rows


_BUSY = "{}: others kept writing to its quarantine; run the command again"


def _up_to(most: int, first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables until they have so many rows."""
    count = first.num_rows
    yield first
    while count < most and (table := next(rest, None)) is not None:
        count += table.num_rows
        yield table
