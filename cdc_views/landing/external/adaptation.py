"""`adapt`: puts an external table's rows into a derived raw table, which then shows the external table as it is now.

The derived table depends on one version of the external table, the schema and the raw format; transaction ids of the commit
that adds the rows record them. If the external table only gained files since then, only the new files are adapted. If any file
is gone (`OPTIMIZE`, `DELETE`), or the schema, the format or cdc-views changed, all files are: one commit replaces all rows.
Deleting the derived table costs only time.

A row that is no event goes to the derived table's quarantine, with the file and the row's number in the file.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.errors import UsageError
from cdc_views.formats.base import RawFormat
from cdc_views.landing.decoding import Decoder
from cdc_views.landing.delta import append, open_delta, overwrite, recorded
from cdc_views.landing.denylist import Denylist
from cdc_views.landing.external.shapes import EventText, Reading, RowReader, plain_columns
from cdc_views.landing.external.table import ExternalFile, ExternalTable
from cdc_views.landing.formed import FormReader
from cdc_views.landing.pipeline import Batch, check_current
from cdc_views.landing.quarantine import RawEvent, clear_quarantine, put
from cdc_views.landing.raw_table import create_raw, exists, is_ours, open_raw, recreate_raw
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

BATCH_ROWS = 10_000  # rows of an external table in memory at once
ADAPTED = "found:version"  # the transaction id that records the external version from which the derived table was made
_SETTING = "found:setting"
_NOTHING = -1  # recorded by a derived table that is still empty
_BITS_63 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Adaptation:
    """What one call of `adapt` did. `quarantined` counts rows that are no events; `is_rebuilt`: all files were read again."""

    files: int = 0
    events: int = 0
    facts: int = 0
    quarantined: int = 0
    is_rebuilt: bool = False


def adapt(
    location: str,
    derived: RawTable,
    format: RawFormat,
    *,
    setting: str,
    batch_rows: int = BATCH_ROWS,
    forgotten: Denylist | None = None,
) -> Adaptation:
    """Bring the raw table derived from the external table at `location` up to date, and create it if it does not exist.

    The landing time of a fact is the time at which its file was written, so no clock is read. `setting` is a text of everything
    that decides how events are read: schema, options, versions; if it changes, all is read again. `batch_rows` are in memory
    at once. Older events of `forgotten` keys go to quarantine without their bytes.

    Raises:
        UsageError: There is no such table, or its columns hold no events of the format.
        EngineError: A table cannot be read or written.
        TransientError: Other processes kept adapting first.
    """
    decoder = Decoder(derived, format, 0, forgotten)

    def attempt() -> Adaptation:
        return _Attempt(ExternalTable.open(location), decoder.reread(), setting, batch_rows).run()

    return retried(attempt, what=f"{derived.location}: other processes kept adapting {location}; run it again")


@dataclass(slots=True)
class _Attempt:
    """One attempt; `decoder` serves every file, with another landing time."""

    external: ExternalTable
    decoder: Decoder
    setting: str
    batch_rows: int
    reading: Reading = field(init=False)
    reader: FormReader = field(init=False)
    done: Adaptation = field(default_factory=Adaptation)

    def run(self) -> Adaptation:
        external, derived = self.external, self.decoder.raw
        self.reading = Reading.of(
            self.decoder.format.name,
            derived.relation.schema,
            columns=external.columns,
            partitions=external.partitions,
            where=external.location,
        )
        self.reader = FormReader(derived.relation, self.decoder.format)
        table = self._table()
        version = recorded(table, ADAPTED)
        if version == external.delta.version():
            return Adaptation()
        fresh = self._fresh(version)
        if fresh is None:
            clear_quarantine(derived)
        files = external.files if fresh is None else fresh
        state = {ADAPTED: external.delta.version(), _SETTING: self._setting_number()}
        with _spooled(derived.relation.arrow_schema(), self._rows(files)) as rows:
            check_current(self.decoder, source=derived.location)
            (overwrite if fresh is None else append)(table, rows, transactions=state)
        return replace(self.done, files=len(files), is_rebuilt=fresh is None)

    def _table(self) -> DeltaTable:
        """Return the derived table; drop what it holds if it was made for another setting."""
        derived, format_name = self.decoder.raw, self.decoder.format.name
        if not exists(derived):
            return create_raw(derived, format_name=format_name)
        table = open_delta(derived.location)
        if not is_ours(str(table.metadata().description or "")):
            raise UsageError(
                f"{derived.location}: is no raw table of cdc-views, which keeps what it derives there; name another `warehouse`"
            )
        made_for = recorded(table, _SETTING)
        if made_for == self._setting_number():
            return table
        if made_for in (None, _NOTHING):
            with suppress(UsageError):
                # somebody else has just created it for the same setting, and would lose its rows
                return open_raw(derived, format_name=format_name)
        return recreate_raw(derived, format_name=format_name, transactions=dict.fromkeys((ADAPTED, _SETTING), _NOTHING))

    def _setting_number(self) -> int:
        # Delta takes only numbers under a transaction id; a table that was dropped and created again has another id
        digest = hashlib.sha256(f"{self.external.delta.metadata().id}\0{self.setting}".encode()).digest()
        return int.from_bytes(digest[:8], "big") & _BITS_63

    def _fresh(self, version: int | None) -> tuple[ExternalFile, ...] | None:
        """Return the files added since `version`; None if a file is gone since, or the log does not reach back."""
        before = self.external.at(version) if version is not None and version >= 0 else None
        if before is None:
            return None
        known = {file.identity for file in before.files}
        now = {file.identity for file in self.external.files}
        return tuple(file for file in self.external.files if file.identity not in known) if known <= now else None

    def _rows(self, files: Iterable[ExternalFile]) -> Iterator[pa.Table]:
        for file in files:
            decoder = replace(self.decoder, landed_at=file.written_at)
            reader: RowReader | None = None
            for batch, numbers in self.external.batches(file, rows=self.batch_rows):
                if reader is None:
                    reader = self.reading.reader(batch.schema, where=f"{self.external.location}: {file.path}")
                plain = pa.Table.from_batches([batch]).cast(plain_columns(batch.schema))
                yield self._adapted(file, decoder, zip(numbers, map(reader, plain.to_pylist()), strict=True))

    def _adapted(self, file: ExternalFile, decoder: Decoder, texts: Iterable[tuple[int, EventText]]) -> pa.Table:
        batch, given = Batch(decoder, self.reader), list(texts)
        events = [(number, text.content) for number, text in given if not text.reason]
        # rows of a table come in no order, so none has a line
        contents, lines = [content for _, content in events], [0] * len(events)
        batch.add_many(contents, lines=lines, event=lambda index: _event(file, *events[index]))
        for number, text in given:
            if text.reason:
                batch.reject(_event(file, number, text.content), text.reason)
        rows = batch.rows()
        batch.rejected.sort(key=lambda one: one.event.line)
        put(decoder, batch.rejected, mark=f"head:{file.identity}")
        self.done = replace(
            self.done,
            events=self.done.events + batch.landed,
            facts=self.done.facts + rows.num_rows,
            quarantined=self.done.quarantined + len(batch.quarantined),
        )
        return rows


def _event(file: ExternalFile, number: int, content: bytes) -> RawEvent:
    event_id = hashlib.sha256(f"{file.identity}:{number}".encode()).hexdigest()
    return RawEvent(file.path, event_id, content, number, number - 1, number, is_ordered=False)


@contextmanager
def _spooled(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatchReader]:
    """Write rows to a temporary file and read them back: one commit takes them, and memory never holds them all.

    deltalake pulls rows from its own thread, in which it cannot be called again, so they cannot be made meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="cdc-views-") as folder:
        path = str(Path(folder) / "rows.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for table in tables:
                writer.write_table(table)
        with pa.OSFile(path, "rb") as source, pa.ipc.open_stream(source) as reader:
            yield reader
