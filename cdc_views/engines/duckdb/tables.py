"""What stands after FROM where DuckDB reads facts: files of snapshots, and facts without what landed late."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cdc_views.engines.base import Sources
from cdc_views.engines.duckdb.covered import uncovered
from cdc_views.engines.duckdb.state import snapshot_of_files, snapshots_of_parts
from cdc_views.engines.duckdb.types import is_same_type, literal, quoted, type_text
from cdc_views.engines.snapshot import Snapshot
from cdc_views.engines.state_plan import in_time
from cdc_views.plan.parts import Part, Source
from cdc_views.plan.rewrites import prune
from cdc_views.sql.dialects import dialect
from cdc_views.sql.render import Renderer
from cdc_views.storage.relation import RawTable

REGISTERED = "raw_events"
"""The name of a snapshot that has no files to name."""


def tables_of(sources: Sources, every: str, *, drops_empty: bool = False) -> dict[Source, str]:
    """Return a FROM clause for each source that has files; `every` is the clause of all facts, late ones among them.

    See `plan.late.facts_in_time` for `drops_empty`.
    """
    found = {Source.ALL: every}
    for source, snapshot in snapshots_of_parts(sources).items():
        if sources.covered and source in (Source.PLAIN, Source.JUDGED):
            found[source] = _in_layout(uncovered(sources, snapshot.files), snapshot.stored, sources.raw)
        else:
            found[source] = from_clause(snapshot, sources.raw, are_alike=_are_alike(source))
    # plain rows alone hold no other kind of fact: a scan of all finds none
    found.setdefault(Source.OTHERS, every)
    if sources.late_by is None:
        return found
    if sources.is_raw:
        found[Source.TAIL] = every
    counts = _in_time(sources, found, drops_empty=drops_empty)
    for source in Source:
        if Part.TAIL in source.value and source is not Source.TAIL and source in found:
            files = sources.parts.without(Part.TAIL).of(source).paths
            found[source] = _together(sources, [_of_files(sources, files)] * bool(files) + [counts])
    return found


def _are_alike(source: Source) -> bool:
    """Whether one commit wrote the files; what `forget` rewrites keeps its columns."""
    return any(set(source.value) <= set(level.value) for level in (Source.BASE, Source.OVERLAY))


def _of_files(sources: Sources, files: tuple[str, ...]) -> str:
    return from_clause(snapshot_of_files(sources, files), sources.raw)


def _in_time(sources: Sources, tables: dict[Source, str], *, drops_empty: bool) -> str:
    plan = in_time(sources, drops_empty=drops_empty)
    assert plan is not None
    sql = Renderer(dialect("duckdb"), table=tables[Source.TAIL], tables=tables).sql(prune(plan))
    return f"({sql}) AS in_time"


def _together(sources: Sources, clauses: list[str]) -> str:
    if len(clauses) == 1:
        return clauses[0]
    columns = ", ".join(quoted(name) for name in sources.raw.relation.arrow_schema().names)
    selects = " UNION ALL ".join(f"SELECT {columns} FROM {clause}" for clause in clauses)
    return f"({selects}) AS facts_that_count"


def from_clause(snapshot: Snapshot, raw: RawTable, *, are_alike: bool = False) -> str:
    """Return what stands after FROM: `read_parquet` of the snapshot's files, or what `run` registers.

    A column that the schema gained since the files were written is null in them, a field of a struct too. Files that
    `are_alike` have the same columns, so that DuckDB need not look at each before it plans.
    """
    if snapshot.arrow is not None:
        return REGISTERED
    files = ", ".join(map(literal, snapshot.files))
    how = "" if are_alike else ", union_by_name = true"
    return _in_layout(f"read_parquet([{files}]{how})", snapshot.stored, raw)


def from_row_groups(file: str, ranges: Sequence[range], stored: pa.Schema, raw: RawTable) -> str:
    """Return what stands after FROM for some of a file's row groups, given as row numbers; the others are not read."""
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
    """Return SQL for a column that the files lack or have with other fields; None where they have it as it is."""
    if stored is None or (field.name in stored.names and is_same_type(stored.field(field.name).type, field.type)):
        return None
    value = f'"{field.name}"' if field.name in stored.names else "NULL"
    return f"CAST({value} AS {type_text(field.type)})"
