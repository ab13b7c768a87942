"""FROM clauses over the files of facts for DuckDB, without late facts and those outside the bucket of a read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.engines.base import Sources
from cdc_views.engines.buckets import facts_within, is_within
from cdc_views.engines.duckdb.masks import mask_of, unhidden
from cdc_views.engines.duckdb.types import is_same_type, literal, quoted, type_text
from cdc_views.engines.snapshot import Snapshot, readable, snapshot_of
from cdc_views.engines.state_plan import in_time
from cdc_views.model.types import Udt
from cdc_views.plan import names
from cdc_views.plan.parts import FileSet, Part, Source
from cdc_views.sql.dialects.duckdb import DuckDb
from cdc_views.sql.render import Renderer
from cdc_views.storage.places import arrow_source, at_once
from cdc_views.storage.relation import RawTable

Schemas = dict[str, pa.Schema]
"""Schemas of files, by path."""


def snapshot_of_sources(sources: Sources) -> Snapshot:
    """Return the files of `sources` as one snapshot."""
    if sources.is_raw:
        return snapshot_of(sources.raw, version=sources.raw_version)
    files = sources.paths()
    if not files:
        return Snapshot(sources.raw_version, arrow=sources.raw.relation.arrow_schema().empty_table())
    return Snapshot(sources.raw_version, files, _stored(sources, files, {}))


def _stored(sources: Sources, files: tuple[str, ...], known: Schemas) -> pa.Schema:
    """The columns that the files really have; Delta's schema may have newer ones.

    A column has an unexpected type if any file has one, so that a reader completes it. The log of a state tells which files have
    the layout of now; these are not opened.
    """
    return _stored_of(sources.raw, files, known, in_layout=sources.in_layout)


def _stored_of(raw: RawTable, files: Sequence[str], known: Schemas, *, in_layout: Collection[str] = ()) -> pa.Schema:
    layout = raw.relation.arrow_schema()
    opened = [file for file in files if file not in in_layout]
    if not opened:
        return layout
    unknown = [file for file in opened if file not in known]
    known |= dict(zip(unknown, at_once(_schema_of, unknown), strict=True))
    schemas = [known[file] for file in opened] + [layout] * (len(opened) < len(files))
    columns: dict[str, pa.Field] = {}
    for field in layout:
        found = [schema.field(field.name) for schema in schemas if field.name in schema.names]
        others = [other for other in found if not is_same_type(other.type, field.type)]
        if found:
            columns[field.name] = (others or found)[0]
    return pa.schema(list(columns.values()))


def _schema_of(file: str) -> pa.Schema:
    with readable(file):
        return pq.read_schema(arrow_source(file))


def tables_of(
    raw: RawTable, sources: Sources | None, snapshot: Snapshot, *, drops_empty: bool = False, for_view: bool = False
) -> dict[Source, str]:
    """Return a FROM clause for each source with files; `snapshot` holds also late facts.

    `drops_empty`: see `facts_in_time`; `for_view`: see `mask_of`.
    """
    if sources is None:
        return {Source.ALL: from_clause(snapshot, raw)}
    reader = _Reader(sources, for_view=for_view)
    found = {source: reader.table(sources.parts.of(source)) for source in Source if sources.paths(source)}
    if sources.is_raw:
        found[Source.TAIL] = from_clause(snapshot, raw)
    if sources.is_raw or snapshot.arrow is not None:  # without facts, a state may still remember what it purged
        found[Source.ALL] = from_clause(snapshot, raw)
    # if all files are plain rows, a scan of all finds no other facts
    found.setdefault(Source.OTHERS, found[Source.ALL])
    plan = in_time(sources, drops_empty=drops_empty)
    if plan is None:
        return found
    counts = f"({Renderer(DuckDb(), table=found[Source.TAIL], tables=found).sql(plan)}) AS in_time"
    for source in Source:
        if Part.TAIL in source.value and source is not Source.TAIL and source in found:
            others = sources.parts.without(Part.TAIL).of(source)
            found[source] = reader.together([reader.table(others), counts]) if others else counts
    return found


class _Reader:
    """FROM clauses over the files of `sources`, without rows that deletion vectors hide."""

    def __init__(self, sources: Sources, *, for_view: bool) -> None:
        self._sources, self._raw, self._known = sources, sources.raw, dict[str, pa.Schema]()
        self._mask = mask_of(sources, for_view=for_view)

    def table(self, files: FileSet) -> str:
        """Return the FROM clause of some files, without what does not count in the bucket of `sources`."""
        wholly = files.only(partial(is_within, self._sources))
        if len(wholly.paths) == len(files.paths):
            return self._all_of(files)
        partly = self._all_of(files.only(lambda path: not is_within(self._sources, path)))
        within = f"({Renderer(DuckDb(), table=partly).sql(facts_within(self._sources))}) AS within"
        return self.together([self._all_of(wholly), within]) if wholly else within

    def _all_of(self, files: FileSet) -> str:
        reading = _reading(files.paths, are_alike=self._sources.in_layout.issuperset(files.paths))
        if files.masked:
            reading = f"{unhidden(reading, files.paths, self._mask)} AS not_hidden"
        return _in_layout(reading, _stored(self._sources, files.paths, self._known), self._raw)

    def together(self, parts: Sequence[str]) -> str:
        """Return the FROM clause of all rows of some FROM clauses."""
        if len(parts) == 1:
            return parts[0]
        columns = ", ".join(map(quoted, self._raw.relation.arrow_schema().names))
        return f"({' UNION ALL '.join(f'SELECT {columns} FROM {part}' for part in parts)}) AS facts"


def placed(files: Sequence[str]) -> str:
    """Return the FROM clause of some files with `FILE` and `POSITION`, hidden rows included."""
    places = f"filename AS {quoted(names.FILE)}, file_row_number AS {quoted(names.POSITION)}"
    return f"(SELECT *, {places} FROM {_reading(files)}) AS placed"


def _reading(files: Sequence[str], *, are_alike: bool = False) -> str:
    """`are_alike`: all files have the same columns, so DuckDB need not open each of them to plan."""
    how = "" if are_alike else ", union_by_name = true"
    return f"read_parquet([{', '.join(map(literal, files))}]{how})"


def from_clause(snapshot: Snapshot, raw: RawTable) -> str:
    """Return a FROM clause: `read_parquet` of the snapshot's files, or the name of a snapshot without files.

    A column or struct field that is newer than the files is null.
    """
    if snapshot.arrow is not None:
        return snapshot.arrow_name
    # Delta's schema does not tell which files lack a field; without user types no file lacks a part of a column
    has_fields = any(isinstance(column.type, Udt) and column.type.is_multicell for column in raw.relation.schema.columns)
    stored = _stored_of(raw, snapshot.files, {}) if has_fields else snapshot.stored
    return _in_layout(_reading(snapshot.files), stored, raw)


def files_clause(files: Sequence[str]) -> str:
    """Return a FROM clause of files that somebody else wrote: a column that a file lacks is null, and no folder names one."""
    listed = ", ".join(map(literal, files))
    return f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"


def from_row_groups(file: str, ranges: Sequence[range], stored: pa.Schema, raw: RawTable) -> str:
    """Return a FROM clause for some row groups of a file, given as ranges of row numbers; the others are not read."""
    rows = f"SELECT * EXCLUDE (file_row_number) FROM read_parquet([{literal(file)}], file_row_number = true)"
    selects = " UNION ALL ".join(f"{rows} WHERE file_row_number BETWEEN {r.start} AND {r.stop - 1}" for r in ranges)
    return _in_layout(f"({selects}) AS some_row_groups", stored, raw)


def _in_layout(reading: str, stored: pa.Schema | None, raw: RawTable) -> str:
    columns = [(field.name, _completed(field, stored)) for field in raw.relation.arrow_schema()]
    if all(completed is None for _, completed in columns):
        return reading
    listed = ", ".join(f'"{name}"' if completed is None else f'{completed} AS "{name}"' for name, completed in columns)
    return f"(SELECT {listed} FROM {reading}) AS completed"


def _completed(field: pa.Field, stored: pa.Schema | None) -> str | None:
    """SQL for a column that the files lack or have with other fields; None if they have it as it is."""
    if stored is None or (field.name in stored.names and is_same_type(stored.field(field.name).type, field.type)):
        return None
    kind = type_text(field.type)
    if field.name not in stored.names:
        return f"CAST(NULL AS {kind})"
    # DuckDB 2.0 fails where it reads a part of a struct that only some of the files have: so it reads the whole
    return f'CASE WHEN "{field.name}" IS NOT NULL THEN CAST("{field.name}" AS {kind}) END'
