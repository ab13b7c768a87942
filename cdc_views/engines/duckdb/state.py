"""States by DuckDB: facts of several files reduced by SQL, committed by deltalake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import WriterProperties

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.engines.duckdb.covered import with_covered
from cdc_views.engines.duckdb.types import is_same_type, quoted, type_text
from cdc_views.engines.readable import readable
from cdc_views.engines.snapshot import Snapshot, snapshot_of
from cdc_views.engines.state_plan import order_of, plan_of, replaced_by
from cdc_views.errors import EngineError
from cdc_views.landing.delta import BOUND_BYTES, DICTIONARY_BYTES, commit, open_delta, recording
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import Part, Source
from cdc_views.sql.dialects import dialect
from cdc_views.sql.render import Renderer

_BATCH_ROWS = 100_000
_FILES = WriterProperties(
    compression="LZ4_RAW", dictionary_page_size_limit=DICTIONARY_BYTES, statistics_truncate_length=BOUND_BYTES
)
"""The fastest to read: a state is read more often than written."""
Schemas = dict[str, pa.Schema]
"""What files have, by path."""


def snapshot_of_sources(sources: Sources) -> Snapshot:
    """Return the files of `sources` as one snapshot."""
    if sources.is_raw:
        return snapshot_of(sources.raw, version=sources.raw_version)
    files = sources.paths()
    if not files:
        return Snapshot(sources.raw_version, arrow=sources.raw.relation.arrow_schema().empty_table())
    return snapshot_of_files(sources, files)


def snapshot_of_files(sources: Sources, files: tuple[str, ...], known: Schemas | None = None) -> Snapshot:
    """Return some of the files of `sources`, at least one, as a snapshot; `known` are footers that were read before."""
    return Snapshot(sources.raw_version, files, _stored(sources, files, {} if known is None else known))


def snapshots_of_parts(sources: Sources) -> dict[Source, Snapshot]:
    """Return the files of each source that a scan of a state may read."""
    known: Schemas = {}
    return {s: snapshot_of_files(sources, files, known) for s in Source if s is not Source.ALL and (files := sources.paths(s))}


def _stored(sources: Sources, files: tuple[str, ...], known: Schemas) -> pa.Schema:
    """The columns that the files really have: those of Delta's schema may be younger than all of them.

    Of each column the type that is not the expected one, if any, so that a reader completes it. One commit writes the files
    of a base, which may be hundreds, and one those of an overlay, so that one file speaks for all.
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


def write_state(connection: duckdb.DuckDBPyConnection, write: StateWrite, *, tables: Mapping[Source, str]) -> None:
    """See `Engine.write_state`; `tables` are the facts as they stand after FROM."""
    relation = write.sources.raw.relation
    # a purge looks at each fact twice: at what stays of it, and at what leaves
    renderer = Renderer(dialect("duckdb"), table=tables[Source.ALL], tables=tables, computes_once=write.purges)
    reduced = renderer.sql(plan_of(write))
    columns = ", ".join(_typed(field) for field in relation.arrow_schema())
    order = ", ".join(map(quoted, order_of(relation)))
    sql = f"SELECT {columns}, {quoted(PART)} FROM ({reduced}) AS reduced ORDER BY {order}"
    try:
        rows = connection.sql(sql).to_arrow_reader(_BATCH_ROWS)
        _commit(write, with_covered(connection, write, rows) if write.into is Part.OVERLAY else rows)
    except duckdb.Error as error:
        raise EngineError(f"DuckDB: {str(error).splitlines()[0]}") from error


def _typed(field: pa.Field) -> str:
    return f"CAST({quoted(field.name)} AS {type_text(field.type)}) AS {quoted(field.name)}"


def _commit(write: StateWrite, rows: pa.RecordBatchReader) -> None:
    name, number = write.transaction
    how: dict[str, Any] = {"mode": "overwrite", "predicate": replaced_by(write)} if write.replaced else {"mode": "append"}
    target = open_delta(write.target, version=write.version)
    commit(target, rows, recording({name: number}), schema_mode="merge", writer_properties=_FILES, **how)
