"""The rows of a query as a Delta table: the columns of a serving table, and all files of a write in one commit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction

from cdc_views.engines.base import Engine, Read, ValueForm
from cdc_views.engines.serving import NOTE, held_schema
from cdc_views.errors import CdcViewsError, UsageError
from cdc_views.landing.delta import delta_errors, open_delta
from cdc_views.operations.row_files import rows_in_file
from cdc_views.project.paths import unfit_letter
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.delta_log import LOG
from cdc_views.storage.delta_tables import created_with, is_table, made_for
from cdc_views.storage.places import Place, arrow_sink, at_once, place_of, remove_tree
from cdc_views.storage.row_groups import FILE_BYTES, RowGroupWriter

if TYPE_CHECKING:
    from cdc_views.engines.base import FilesEngine

MARK = "rows of a query of cdc-views"
"""What a table's description begins with: only such a table is ever replaced."""
_FOLDER = "rows-"
_LEFT = re.compile(rf"{_FOLDER}.*|{LOG}")


@dataclass(frozen=True, slots=True)
class RowTable:
    """A Delta table to create, or to replace."""

    place: Place
    replaces: bool
    form = ValueForm.HELD

    @classmethod
    def of(cls, location: str, *, replaces: bool) -> RowTable:
        """Return the table at a path or URL; raises `UsageError` for a path that Delta's library refuses."""
        place = place_of(location.rstrip("/"))
        if isinstance(place, Path) and (letter := unfit_letter(str(place.absolute()))):
            raise UsageError(f"{location!r}: Delta cannot keep a table under a path that holds {letter!r}; choose another path")
        return cls(place, replaces)

    @property
    def location(self) -> str:
        """The location as deltalake has it."""
        return str(self.place)

    def check(self) -> None:
        """Raise `UsageError` if something is there that must not be replaced."""
        table = self._standing()
        if table is None:
            others = [] if not self.place.exists() else [self.place] if self.place.is_file() else list(self.place.iterdir())
            # a run that was killed leaves files that no commit names
            if any(not _LEFT.fullmatch(other.name) for other in others):
                raise UsageError(f"{self.location}: holds something that is no Delta table; name another place")
        elif not str(table.metadata().description or "").startswith(MARK):
            raise UsageError(f"{self.location}: is a Delta table that `--into` did not write; name another place")
        elif not self.replaces:
            raise UsageError(f"{self.location}: is a table already; name another place, or replace its rows with --overwrite")

    def _standing(self) -> DeltaTable | None:
        with delta_errors(self.location):
            is_there = not self.place.is_file() and is_table(self.location)
        return open_delta(self.location) if is_there else None

    def write(self, engine: Engine, read: Read, note: Mapping[str, Any]) -> tuple[int, int]:
        """Write the rows in one commit that has `note`; return how many, and the table's version.

        Raises `ConflictError` if somebody else committed meanwhile, and `UsageError` if somebody else created the table.
        """
        schema = held_schema(read)

        def made(folder: Place) -> list[Place]:
            if engine.writes_files:
                return cast("FilesEngine", engine).write_files(read, folder)
            return _written(engine.batches(read), schema, folder)

        return self._write(made, schema, note, name=read.raw.relation.schema.full_name)

    def write_found(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, note: Mapping[str, Any], *, name: str
    ) -> tuple[int, int]:
        """Write rows that are found already; otherwise as `write`. `name` is what the table is called."""
        return self._write(lambda folder: _written(batches, schema, folder), schema, note, name=name)

    def _write(
        self, made: Callable[[Place], Sequence[Place]], schema: pa.Schema, note: Mapping[str, Any], *, name: str
    ) -> tuple[int, int]:
        self.check()
        before, folder = self._standing(), self.place / f"{_FOLDER}{uuid4()}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            files = made(folder)
        except BaseException:
            _remove(folder)
            raise
        try:
            return self._commit(before, name, schema, files, note)
        except (ConflictError, UsageError):
            # after any other error the commit may be there, and name the files
            _remove(folder)
            raise

    def _commit(
        self, before: DeltaTable | None, name: str, schema: pa.Schema, files: Sequence[Place], note: Mapping[str, Any]
    ) -> tuple[int, int]:
        counts = at_once(rows_in_file, files)
        actions = list(map(_action, files, counts))
        properties = CommitProperties({NOTE: json.dumps(note)})
        if before is None:
            table = self._created(name, schema, actions, properties)
        else:
            table = before
            with delta_errors(self.location):
                made_for(table, schema).create_write_transaction(
                    [*actions], "overwrite", Schema.from_arrow(schema), commit_properties=properties
                )
                table.update_incremental()
        return sum(counts), table.version()

    def _created(self, name: str, schema: pa.Schema, files: list[AddAction], properties: CommitProperties) -> DeltaTable:
        try:
            with delta_errors(self.location):
                told = f"{MARK}: {name}"
                return created_with(self.location, schema, files, name=name, description=told, commit_properties=properties)
        except FileExistsError as error:
            raise UsageError(f"{self.location}: somebody else created it meanwhile; replace it with --overwrite") from error


def _remove(folder: Place) -> None:
    with suppress(OSError, CdcViewsError):
        remove_tree(folder)


def _written(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Place) -> list[Place]:
    """Write the rows to files of the folder, one after the other; return the files."""
    files = list[Place]()
    tables = (pa.Table.from_batches([batch]).cast(schema) for batch in batches)
    folder.mkdir(parents=True, exist_ok=True)
    first = next(tables, None)
    while first is not None:
        files.append(folder / f"part-{len(files)}.parquet")
        with arrow_sink(files[-1]) as sink, RowGroupWriter(sink, schema) as writer:
            writer.add(first)
            while (first := next(tables, None)) is not None and writer.bytes < FILE_BYTES:
                writer.add(first)
    return files


def _action(file: Place, rows: int) -> AddAction:
    found = file.stat()
    path, stats = f"{file.parent.name}/{file.name}", json.dumps({"numRecords": rows})
    return AddAction(path, found.st_size, {}, int(found.st_mtime * 1000), data_change=True, stats=stats)
