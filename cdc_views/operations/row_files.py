"""The rows of a query as a file: Parquet with the columns of a serving table, or the text that `query` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.engines.base import BATCH_ROWS, Engine, Read, ValueForm
from cdc_views.engines.serving import held_schema
from cdc_views.errors import EngineError, UsageError, choose_one
from cdc_views.operations.result import StreamedAnswer
from cdc_views.rules.codec.jsontext import JsonRow
from cdc_views.rules.codec.row_texts import TEXTS
from cdc_views.storage.delta_log import DRAFT
from cdc_views.storage.outputs import is_of_parts, whole_folder
from cdc_views.storage.places import Place, arrow_source, new_file, place_of, remove_tree
from cdc_views.storage.row_groups import RowGroupWriter

if TYPE_CHECKING:
    from cdc_views.engines.base import FilesEngine

PARQUET = "parquet"
_FORMATS = (PARQUET, *TEXTS)
_PIECES = 1_000
"""Lines that go to a file at a time: a store's client takes some microseconds for each call."""
_T = TypeVar("_T")


class FoundRows(Protocol):
    """Rows as texts: `json_rows`, and `shown_rows` for CSV, which names NaN and the infinities. One of them is taken, once."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns, in order."""

    def json_rows(self) -> Iterator[JsonRow]:
        """Yield each row as JSON texts."""

    def shown_rows(self) -> Iterator[JsonRow]:
        """Yield each row as texts for people."""


@dataclass(slots=True)
class Count:
    """How many things have passed."""

    number: int = 0

    def of(self, things: Iterable[_T]) -> Iterator[_T]:
        """Yield the things, and count them."""
        for thing in things:
            self.number += 1
            yield thing


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file to write rows to, or, by an engine whose tasks write files, a folder of part files on this machine."""

    place: Place
    format: str
    replaces: bool

    @classmethod
    def of(cls, location: str, *, format: str | None, replaces: bool) -> RowFile:
        """Return the file at a path or URL; `format` None: as its name ends. Raises `UsageError` for another format."""
        place = place_of(location)
        found = place.suffix.removeprefix(".") if format is None else format
        if found not in _FORMATS:
            told = f"--format {found!r} is none of a file" if format else f"{location}: the name tells no format by its end"
            raise UsageError(f"{told}; {choose_one(found, _FORMATS)}: end the name in it, as rows.parquet, or say --format")
        return cls(place, found, replaces)

    @property
    def form(self) -> ValueForm:
        """The form of the rows that it takes."""
        return ValueForm.HELD if self.format == PARQUET else ValueForm.EXACT

    def check(self) -> None:
        """Raise `UsageError` if something is there that must not be replaced."""
        if not self.place.exists():
            return
        if not self.replaces:
            raise UsageError(f"{self.place}: is there already; name another file, or replace it with --overwrite")
        if self.place.is_dir() and not (isinstance(self.place, Path) and is_of_parts(self.place)):
            raise UsageError(f"{self.place}: is a folder, and not one of part files alone; name a file")

    def write(self, engine: Engine, read: Read) -> int:
        """Write the rows, whole or not at all; return how many."""
        with self._alone(may_be_folder=engine.writes_files and self.format == PARQUET):
            if self.format == PARQUET:
                return self._parquet(engine, read)
            return self._text(StreamedAnswer(read.raw.relation, read.columns, engine.batches(read), read.as_of))

    def write_found(self, found: FoundRows, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows that are found already, as one file, whole or not at all; return how many."""
        with self._alone(may_be_folder=False):
            return self._one_file(batches, schema) if self.format == PARQUET else self._text(found)

    @contextmanager
    def _alone(self, *, may_be_folder: bool) -> Iterator[None]:
        if isinstance(self.place, Path):
            self.place.parent.mkdir(parents=True, exist_ok=True)
        if self.place.is_dir() and not may_be_folder:
            raise UsageError(f"{self.place}: is a folder, and one file is to be written; name another, or remove the folder")
        try:
            yield
        except FileExistsError as error:
            raise UsageError(f"{self.place}: somebody else wrote it meanwhile; replace it with --overwrite") from error

    def _text(self, found: FoundRows) -> int:
        counted = Count()
        # JSON has neither NaN nor infinities
        rows = found.shown_rows() if self.format == "csv" else found.json_rows()
        pieces = TEXTS[self.format](found.columns, counted.of(rows))
        with new_file(self.place, replaces=self.replaces) as stream:
            while some := "".join(islice(pieces, _PIECES)):
                stream.write(some.encode())
        return counted.number

    def _parquet(self, engine: Engine, read: Read) -> int:
        if not engine.writes_files:
            return self._one_file(engine.batches(read), held_schema(read))
        tasks = cast("FilesEngine", engine)
        if isinstance(self.place, Path):
            with whole_folder(self.place, replaces=self.replaces) as folder:
                return sum(map(rows_in_file, tasks.write_files(read, folder)))
        return self._joined(tasks, read)

    def _joined(self, engine: FilesEngine, read: Read) -> int:
        """Write one object: the files of a folder would show one after the other, for a store renames no folder."""
        folder = self.place.parent / f"{DRAFT}{uuid4()}"
        try:
            return self._one_file(_batches_in(engine.write_files(read, folder)), held_schema(read))
        finally:
            with suppress(OSError, EngineError):
                remove_tree(folder)

    def _one_file(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
        with new_file(self.place, replaces=self.replaces) as stream, RowGroupWriter(stream, schema) as writer:
            for batch in batches:
                writer.add(pa.Table.from_batches([batch]).cast(schema))
        return writer.rows


def _batches_in(files: Iterable[Place]) -> Iterator[pa.RecordBatch]:
    for file in files:
        with pq.ParquetFile(arrow_source(file)) as opened:
            yield from opened.iter_batches(BATCH_ROWS)


def rows_in_file(file: Place) -> int:
    """Return the rows of a Parquet file."""
    return int(pq.read_metadata(arrow_source(file)).num_rows)
