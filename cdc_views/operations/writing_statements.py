"""`Project.write`: the rows of a user's query to a file or a Delta table, in the engine's types."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema

from cdc_views.errors import UsageError
from cdc_views.operations.context import ProjectContext
from cdc_views.operations.row_files import PARQUET, RowFile
from cdc_views.operations.statements import StreamedStatement, streamed_statement
from cdc_views.operations.writing import RowsWritten, target_of

_NAME = "rows of SQL"
_UNFIT = re.compile(r"[ ,;{}()\n\t=]")
"""Letters that Delta takes in no column's name, unless its columns are mapped."""


def write_statement(
    project: ProjectContext,
    text: str,
    *,
    out: str | Path | None = None,
    into: str | Path | None = None,
    format: str | None = None,
    overwrite: bool = False,
    **asked: Any,
) -> RowsWritten:
    """Write the rows of a query over merged tables; see `Project.write`. Passes `asked` on to `streamed_statement`."""
    target = target_of(project.config, out=out, into=into, format=format, overwrite=overwrite)
    target.check()
    with streamed_statement(project, text, **asked) as found:
        told = "; ".join(f"{table}: {note}" if table not in note else note for table, note in found.notes.items())
        if isinstance(target, RowFile):
            if target.format == PARQUET:
                _check_types(found.schema, _in_parquet, "Parquet")
            rows, version = target.write_found(found, found.schema, found.batches), None
        else:
            for name in found.columns:
                if _UNFIT.search(name):
                    raise UsageError(f"column {name!r}: Delta takes no such name; give it another, as … AS other")
            _check_types(found.schema, _in_delta, "Delta")
            rows, version = target.write_found(found.batches, found.schema, _provenance(found, asked), name=_NAME)
    return RowsWritten(str(target.place), rows, found.as_of, version, told)


def _provenance(found: StreamedStatement, asked: dict[str, Any]) -> dict[str, Any]:
    """What the rows show, for the commit's metadata. The query is left out: it may hold somebody's data."""
    instants = {name: str(asked[name]) for name in ("landed_as_of", "written_as_of") if asked.get(name) is not None}
    return {"tables": sorted(found.tables), "as_of": found.as_of, **instants}


def _check_types(schema: pa.Schema, made: Callable[[pa.Schema], object], format: str) -> None:
    for field in schema:
        try:
            made(pa.schema([field]))
        except Exception as error:  # of the format's library, which has no base for them
            told = f"column {field.name!r} is of type {field.type}, which {format} does not have"
            raise UsageError(f"{told}; cast it, as CAST(… AS VARCHAR)") from error


def _in_parquet(schema: pa.Schema) -> None:
    pq.ParquetWriter(pa.BufferOutputStream(), schema).close()


def _in_delta(schema: pa.Schema) -> None:
    _in_parquet(schema)
    if not Schema.from_arrow(schema).to_arrow():
        raise ValueError(schema)
