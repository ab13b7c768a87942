"""The active files of a raw Delta table, read without Spark, and errors for missing or damaged files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

from cdc_views.errors import ConfigError, EngineError
from cdc_views.plan.compact import PART
from cdc_views.storage.delta_tables import opened
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.stores import explained, is_url
from cdc_views.storage.table_log import TableLog

_OF_STATE = "build the state anew with `materialize --full`"
_OF_RAW = "restore this file of the raw table"
REGISTERED = "raw_events"
"""What SQL calls a snapshot without files, if it reads no other."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table. `arrow` replaces files that are not plain Parquet; `stored` is the files' schema, perhaps older.
    `arrow_name` is what SQL calls `arrow`.
    """

    version: int
    files: tuple[str, ...] = ()
    stored: pa.Schema | None = None
    arrow: pa.Table | None = None
    arrow_name: str = REGISTERED


def snapshot_of(raw: RawTable, *, version: int | None = None) -> Snapshot:
    """Return the snapshot of a version (None: the newest); a missing table is version -1 without rows. Raises `EngineError`."""
    log = TableLog.find(raw.location, version=version)
    if log is None:
        return Snapshot(-1, arrow=raw.relation.arrow_schema().empty_table())
    if log.added and not log.has_vectors:
        return Snapshot(log.version, log.paths, log.schema)
    rows = _rows(log) if log.added else raw.relation.arrow_schema().empty_table()
    return Snapshot(log.version, arrow=completed(rows, raw.relation))


def unread(location: str, error: Exception) -> EngineError | ConfigError:
    """Return the error for a raw table that cannot be opened."""
    if is_url(location):
        return explained(location, error)
    return EngineError(f"raw table {location} cannot be read: {error}")


def _rows(log: TableLog) -> pa.Table:
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in sorted(log.schema.names))
    try:
        table = opened(log.location, version=log.version)
        return pa.table(QueryBuilder().register("raw", table).execute(f"SELECT {names} FROM raw").read_all())
    except (DeltaError, OSError) as error:
        raise unread(log.location, error) from error


def completed(rows: pa.Table, relation: Relation) -> pa.Table:
    """Add the missing columns of the raw layout to rows, as nulls."""
    for field in relation.arrow_schema():
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


@contextmanager
def readable(file: str) -> Iterator[None]:
    """Raise `EngineError` if Arrow cannot read `file` of a state or raw table in this block."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # Arrow raises OSError for a damaged footer
        remedy = _OF_STATE if f"/{PART}=" in file else _OF_RAW
        raise EngineError(f"{file} is gone or damaged; {remedy}; `cdc-views validate` names all such files") from error
