"""FROM clauses over the files of facts for DuckDB, without late facts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.engines.base import Sources
from cdc_views.engines.duckdb.covered import uncovered
from cdc_views.engines.duckdb.types import is_same_type, literal, quoted, type_text
from cdc_views.engines.snapshot import Snapshot, readable, snapshot_of
from cdc_views.engines.state_plan import in_time
from cdc_views.plan.parts import Part, Source
from cdc_views.sql.dialects.duckdb import DuckDb
from cdc_views.sql.render import Renderer
from cdc_views.storage.relation import RawTable

REGISTERED = "raw_events"
"""The table name of a snapshot without files."""
Schemas = dict[str, pa.Schema]
"""Schemas of files, by path."""


def snapshot_of_sources(sources: Sources) -> Snapshot:
    """Return the files of `sources` as one snapshot."""
    if sources.is_raw:
        return snapshot_of(sources.raw, version=sources.raw_version)
    files = sources.paths()
    if not files:
        return Snapshot(sources.raw_version, arrow=sources.raw.relation.arrow_schema().empty_table())
    return snapshot_of_files(sources, files)


def snapshot_of_files(sources: Sources, files: tuple[str, ...], known: Schemas | None = None) -> Snapshot:
    """Return some files of `sources`, at least one, as a snapshot; `known` caches schemas of files."""
    return Snapshot(sources.raw_version, files, _stored(sources, files, {} if known is None else known))


def _stored(sources: Sources, files: tuple[str, ...], known: Schemas) -> pa.Schema:
    """The columns that the files really have; Delta's schema may have newer ones.

    A column has an unexpected type if any file has one, so that a reader completes it. One commit writes all files of a base
    (perhaps hundreds), and another all files of an overlay. So one file of each is enough.
    """
    base, overlay = set(sources.paths(Source.BASE)), set(sources.paths(Source.OVERLAY))
    of_base, of_overlay = ([file for file in files if file in those] for those in (base, overlay))
    wanted = (*of_base[:1], *of_overlay[:1], *(file for file in files if file not in base and file not in overlay))
    for file in dict.fromkeys(wanted):
        if file not in known:
            with readable(file):
                known[file] = pq.read_schema(file)
    schemas = [known[file] for file in wanted]
    columns: dict[str, pa.Field] = {}
    for field in sources.raw.relation.arrow_schema():
        found = [schema.field(field.name) for schema in schemas if field.name in schema.names]
        others = [other for other in found if not is_same_type(other.type, field.type)]
        if found:
            columns[field.name] = (others or found)[0]
    return pa.schema(list(columns.values()))


def tables_of(raw: RawTable, sources: Sources | None, snapshot: Snapshot, *, drops_empty: bool = False) -> dict[Source, str]:
    """Return a FROM clause for each source with files; `snapshot` holds also late facts. `drops_empty`: see `facts_in_time`."""
    every = from_clause(snapshot, raw)
    found, known = {Source.ALL: every}, dict[str, pa.Schema]()
    if sources is None:
        return found
    for source in Source:
        files = sources.paths(source)
        if source is Source.ALL or not files:
            continue
        snapshot = snapshot_of_files(sources, files, known)
        if sources.covered and source in (Source.PLAIN, Source.JUDGED):
            found[source] = _in_layout(uncovered(sources, files), snapshot.stored, raw)
        else:
            found[source] = from_clause(snapshot, raw, are_alike=_are_alike(source))
    # if all files are plain rows, a scan of all finds no other facts
    found.setdefault(Source.OTHERS, every)
    if sources.late_by is None:
        return found
    if sources.is_raw:
        found[Source.TAIL] = every
    plan = in_time(sources, drops_empty=drops_empty)
    assert plan is not None, "late facts are known"
    counts = f"({Renderer(DuckDb(), table=found[Source.TAIL], tables=found).sql(plan)}) AS in_time"
    columns = ", ".join(map(quoted, raw.relation.arrow_schema().names))
    for source in Source:
        if Part.TAIL in source.value and source is not Source.TAIL and source in found:
            files = sources.parts.without(Part.TAIL).of(source).paths
            if files:
                others = from_clause(snapshot_of_files(sources, files), raw)
                found[source] = f"(SELECT {columns} FROM {others} UNION ALL SELECT {columns} FROM {counts}) AS facts_that_count"
            else:
                found[source] = counts
    return found


def _are_alike(source: Source) -> bool:
    """Whether one commit wrote the files; files that `forget` rewrites keep their columns."""
    return any(set(source.value) <= set(level.value) for level in (Source.BASE, Source.OVERLAY))


def from_clause(snapshot: Snapshot, raw: RawTable, *, are_alike: bool = False) -> str:
    """Return a FROM clause: `read_parquet` of the snapshot's files, or the name `REGISTERED` for a snapshot without files.

    A column or struct field that is newer than the files is null. If `are_alike`, all files have the same columns, so DuckDB
    need not open each of them to plan.
    """
    if snapshot.arrow is not None:
        return REGISTERED
    files = ", ".join(map(literal, snapshot.files))
    how = "" if are_alike else ", union_by_name = true"
    return _in_layout(f"read_parquet([{files}]{how})", snapshot.stored, raw)


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
    value = f'"{field.name}"' if field.name in stored.names else "NULL"
    return f"CAST({value} AS {type_text(field.type)})"
