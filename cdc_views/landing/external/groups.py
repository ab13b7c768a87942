"""Files of an external table that become one file of the derived raw table: a piece of work that any process may do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa

from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import NewFile, open_delta, write_file
from cdc_views.landing.external.shapes import EventText, Reading, RowReader, plain_columns
from cdc_views.landing.external.table import ExternalFile, ExternalTable
from cdc_views.landing.formed import FormReader
from cdc_views.landing.pipeline import Batch
from cdc_views.landing.quarantine import RawEvent, put
from cdc_views.storage.conflicts import retried
from cdc_views.storage.places import place_of

GROUP_BYTES = 64 << 20
"""Of the external files of one group; a larger file is a group of its own."""


@dataclass(frozen=True, slots=True)
class GroupTask:
    """Files of one version of an external table, and how they are read; `batch_rows` are in memory at once.

    `name` is the first part of the name of the file that is written; a task that is tried again writes another. `stores` are the
    options of stores, by URL.
    """

    name: str
    location: str
    version: int
    files: tuple[ExternalFile, ...]
    decoder: Decoder
    reading: Reading
    batch_rows: int


@dataclass(frozen=True, slots=True)
class AdaptedGroup:
    """What became of a group: the new file, which no commit names yet (None: no rows), and numbers of events."""

    file: NewFile | None
    events: int
    facts: int
    quarantined: int


def groups_of(files: Iterable[ExternalFile], *, most_bytes: int = GROUP_BYTES) -> list[tuple[ExternalFile, ...]]:
    """Return the files in order, as many together as have `most_bytes`."""
    groups, size = list[list[ExternalFile]](), 0
    for file in files:
        if not groups or size + file.size > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return list(map(tuple, groups))


def adapt_group(task: GroupTask) -> AdaptedGroup:
    """Write the rows of a group into a new file in the derived table's folder; events that do not decode go to quarantine."""
    return _Group(task).run()


@dataclass(slots=True)
class _Group:
    task: GroupTask
    external: ExternalTable = field(init=False)
    reader: FormReader = field(init=False)
    events: int = 0
    quarantined: int = 0

    def run(self) -> AdaptedGroup:
        task, raw = self.task, self.task.decoder.raw
        self.external = ExternalTable(task.location, open_delta(task.location, version=task.version))
        self.reader = FormReader(raw.relation, task.decoder.format)
        path = place_of(raw.location) / f"{task.name}-{uuid4()}.parquet"
        file = write_file(path, self._rows(), schema=raw.relation.arrow_schema())
        return AdaptedGroup(file, self.events, 0 if file is None else file.rows, self.quarantined)

    def _rows(self) -> Iterator[pa.Table]:
        for file in self.task.files:
            decoder = replace(self.task.decoder, landed_at=file.written_at)
            reader: RowReader | None = None
            for batch, numbers in self.external.batches(file, rows=self.task.batch_rows):
                if reader is None:
                    reader = self.task.reading.reader(batch.schema, where=f"{self.external.location}: {file.path}")
                plain = pa.Table.from_batches([batch]).cast(plain_columns(batch.schema))
                yield self._adapted(file, decoder, list(zip(numbers, map(reader, plain.to_pylist()), strict=True)))

    def _adapted(self, file: ExternalFile, decoder: Decoder, texts: list[tuple[int, EventText]]) -> pa.Table:
        batch = Batch(decoder, self.reader)
        events = [(number, text.content) for number, text in texts if not text.reason]
        # rows of a table come in no order, so none has a line
        contents, lines = [content for _, content in events], [0] * len(events)
        batch.add_many(contents, lines=lines, event=lambda index: _event(file, *events[index]))
        for number, text in texts:
            if text.reason:
                batch.reject(_event(file, number, text.content), text.reason)
        rows = batch.rows()
        rejected, mark = sorted(batch.rejected, key=lambda one: one.event.line), f"head:{file.identity}"
        # groups may write to quarantine at the same time
        retried(lambda: put(decoder, rejected, mark=mark), what=f"{decoder.raw.location}: others kept writing to its quarantine")
        self.events += batch.landed
        self.quarantined += len(batch.quarantined)
        return rows


def _event(file: ExternalFile, number: int, content: bytes) -> RawEvent:
    event_id = hashlib.sha256(f"{file.identity}:{number}".encode()).hexdigest()
    return RawEvent(file.path, event_id, content, number, number - 1, number, is_ordered=False)
