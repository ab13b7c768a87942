"""An external table: its version, its files, and the rows of each file. It is never written to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdc_views.errors import EngineError, UnsupportedError, UsageError
from cdc_views.landing.delta import delta_errors, open_delta
from cdc_views.landing.raw_table import is_delta, is_ours
from cdc_views.storage.delta_tables import files_in
from cdc_views.storage.stores import is_url

_READ_FEATURES = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """One active file.

    Attributes:
        path: Relative to the table.
        size: In bytes.
        written_at: µs since the epoch.
        partition: The values of partition columns, which the file does not hold.
        kept: Which rows are active, None for all: a deletion vector hides the others.
    """

    path: str
    size: int
    written_at: int
    partition: Mapping[str, pa.Scalar] = field(default_factory=dict)
    kept: pa.BooleanArray | None = None

    @property
    def identity(self) -> str:
        """Equal for equal rows: Delta's files do not change, but a deletion vector may hide more rows of one."""
        digest = hashlib.sha256(f"{self.path}\0{self.size}\0".encode())
        if self.kept is not None:
            digest.update(bytes(self.kept.to_pylist()))
        return digest.hexdigest()


@dataclass(frozen=True)
class ExternalTable:
    """An external table at one version."""

    location: str
    delta: DeltaTable

    @classmethod
    def open(cls, location: str) -> ExternalTable:
        """Return the table at its newest version; raises `EngineError` if its log cannot be read.

        Raises `UsageError` if it is no Delta table or cdc-views landed it, `UnsupportedError` if it needs unknown Delta features.
        """
        if not is_delta(location):
            is_there = is_url(location) or Path(location).is_dir()
            what = "is no Delta table (it has no _delta_log)" if is_there else "there is no such table"
            raise UsageError(f"{location}: {what}; `raw: {{table: …}}` names the Delta table that somebody else lands")
        found = cls(location, open_delta(location))
        found._check()
        return found

    def at(self, version: int) -> ExternalTable | None:
        """Return the table at a version; None if its log does not reach back to it."""
        try:
            before = ExternalTable(self.location, open_delta(self.location, version=version))
            with delta_errors(self.location):
                before.files  # noqa: B018 - deletion vectors of that version may be gone too
        except EngineError:
            return None
        return before

    def _check(self) -> None:
        metadata = self.delta.metadata()
        if is_ours(str(metadata.description or "")):
            raise UsageError(
                f"{self.location}: is a raw table that cdc-views landed, in the canonical layout; leave `layout: as-found` out"
            )
        protocol = self.delta.protocol()
        unknown = set(protocol.reader_features or ()) - _READ_FEATURES
        if metadata.configuration.get(_MAPPING, "none") != "none":
            unknown.add("columnMapping")
        if unknown:
            raise UnsupportedError(
                f"{self.location}: reading it needs Delta's {', '.join(sorted(unknown))}, which cdc-views does not know",
                remedy="land its events with `cdc-views land` into a canonical raw table",
            )

    @property
    def columns(self) -> pa.Schema:
        """The columns, including partition columns."""
        return pa.schema(self.delta.schema().to_arrow())

    @property
    def partitions(self) -> frozenset[str]:
        """The names of the partition columns."""
        return frozenset(self.delta.metadata().partition_columns)

    @cached_property
    def files(self) -> tuple[ExternalFile, ...]:
        """The active files, oldest first."""
        with delta_errors(self.location):
            actions = pa.table(self.delta.get_add_actions(flatten=True))
        kept = self._kept_rows()
        found = [self._file(row, actions, kept) for row in range(actions.num_rows)]
        if kept:
            raise EngineError(f"{self.location}: deletion vectors of {sorted(kept)[0]} belong to no file of the table")
        return tuple(sorted(found, key=lambda file: (file.written_at, file.path)))

    def _file(self, row: int, actions: pa.Table, kept: dict[str, pa.BooleanArray]) -> ExternalFile:
        path = unquote(actions.column("path")[row].as_py())
        if is_url(path) or path.startswith("/"):
            raise UnsupportedError(
                f"{self.location}: file {path} lies outside of it, as in a shallow clone", remedy="name the table that was cloned"
            )
        partition = {name: actions.column(f"partition.{name}")[row] for name in self.partitions}
        mask = kept.pop(f"{_plain(self.delta.table_uri)}/{unquote(path)}", None)
        written_at = actions.column("modification_time")[row].as_py() * 1000
        return ExternalFile(path, actions.column("size_bytes")[row].as_py(), written_at, partition, mask)

    def _kept_rows(self) -> dict[str, pa.BooleanArray]:
        if "deletionVectors" not in (self.delta.protocol().reader_features or ()):
            return {}
        with delta_errors(self.location):
            found = pa.table(self.delta.deletion_vectors()).to_pydict()
        masks = zip(found["filepath"], found["selection_vector"], strict=True)
        return {_plain(uri): pa.array(mask, pa.bool_()) for uri, mask in masks}

    def batches(self, file: ExternalFile, *, rows: int) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """Yield batches of a file's active rows, each with the rows' numbers in the file, from 1.

        Batches also have the partition columns. Raises `EngineError` if the file cannot be read.
        """
        try:
            yield from self._batches(file, rows)
        except (pa.ArrowException, OSError) as error:
            raise EngineError(f"{self.location}: {file.path} cannot be read: {error}") from error

    def _batches(self, file: ExternalFile, rows: int) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        with pq.ParquetFile(files_in(self.delta).open_input_file(file.path), coerce_int96_timestamp_unit="us") as parquet:
            start = 0
            for batch in parquet.iter_batches(batch_size=rows):
                numbers, start = list(range(start + 1, start + batch.num_rows + 1)), start + batch.num_rows
                if file.kept is not None:
                    # a vector may be shorter than the file: the rows after its end are active
                    mask = file.kept.slice(numbers[0] - 1, batch.num_rows).to_pylist()
                    mask += [True] * (batch.num_rows - len(mask))
                    numbers, batch = list(compress(numbers, mask)), batch.filter(pa.array(mask))
                for name, value in file.partition.items():
                    if name not in batch.schema.names:
                        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
                yield batch, numbers


def _plain(uri: str) -> str:
    path = urlsplit(uri).path if is_url(uri) else uri
    return unquote(path).rstrip("/")
