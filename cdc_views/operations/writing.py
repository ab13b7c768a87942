"""`Table.write`: the rows of a query to a file or a Delta table, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cdc_views.engines.base import Read, Sources
from cdc_views.errors import UsageError
from cdc_views.landing.delta import open_delta
from cdc_views.operations.context import TableContext, reach
from cdc_views.operations.querying import reading
from cdc_views.operations.row_files import RowFile
from cdc_views.operations.row_tables import RowTable
from cdc_views.project import ProjectConfig
from cdc_views.rules.codec.times import datetime_text


@dataclass(frozen=True, slots=True)
class RowsWritten:
    """The result of one write.

    Attributes:
        location: The file or the table.
        rows: The number of rows.
        as_of: The clock of rule C4 that the rows show, epoch seconds.
        version: The Delta table's version that has the rows; None for a file.
        note: For the reader, e.g. that nothing has landed yet; mostly empty.
    """

    location: str
    rows: int
    as_of: int
    version: int | None = None
    note: str = ""

    def line(self) -> str:
        """Return one line for people."""
        version = "" if self.version is None else f", version {self.version}"
        return f"{self.location}{version}: {self.rows:,} rows as of {datetime_text(self.as_of * 1_000_000)}Z"


def write_rows(
    table: TableContext,
    *,
    out: str | Path | None = None,
    into: str | Path | None = None,
    format: str | None = None,
    overwrite: bool = False,
    **asked: Any,
) -> RowsWritten:
    """Write the rows of a query; see `Table.write`. Passes `asked` on to `querying.reading`."""
    target = target_of(table.project.config, out=out, into=into, format=format, overwrite=overwrite)
    target.check()
    with reading(table, **asked) as (opened, read, note):
        read = _pinned(table, replace(read, form=target.form, is_ordered=read.limit is not None))
        if isinstance(target, RowFile):
            rows, version = target.write(opened, read), None
        else:
            rows, version = target.write(opened, read, _provenance(table, read))
    return RowsWritten(str(target.place), rows, read.as_of, version, note)


def target_of(
    config: ProjectConfig, *, out: str | Path | None, into: str | Path | None, format: str | None, overwrite: bool
) -> RowFile | RowTable:
    """Return the file or table to write to; raises `UsageError` unless it is one of them, and one that can be written."""
    if (out is None) == (into is None):
        raise UsageError("a file (--out) or a Delta table (--into) was expected to write to, one of them")
    location = str(out if into is None else into)
    # options hold below a folder
    reach(config, location.rstrip("/").rpartition("/")[0])
    if into is None:
        return RowFile.of(location, format=format, replaces=overwrite)
    if format is not None:
        raise UsageError(f"--format {format} is of a file, and --into writes a Delta table; leave it out")
    return RowTable.of(location, replaces=overwrite)


def _pinned(table: TableContext, read: Read) -> Read:
    """Return a read of raw alone at the version of now, so that the version is known; others have one."""
    if read.sources is not None or table.project.is_remote or read.raw.location != table.raw.location:
        return read
    return replace(read, sources=Sources(read.raw, open_delta(read.raw.location).version(), is_raw=True))


def _provenance(table: TableContext, read: Read) -> Mapping[str, Any]:
    """What the rows show, for the commit's metadata. A condition is left out: it may hold somebody's data."""
    sources = read.sources
    found = {
        "table": table.name,
        "as_of": read.as_of,
        "landed_as_of": read.landed_as_of,
        "written_as_of": read.written_as_of,
        "limit": read.limit,
        "is_filtered": read.where is not None,
        "raw": table.raw.location,
        "raw_version": None if sources is None else sources.raw_version,
        "state": (sources.state or None) if sources is not None else None,
        "state_version": sources.state_version if sources is not None and sources.state else None,
    }
    return {name: value for name, value in found.items() if value is not None}
