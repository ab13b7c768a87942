"""`spark.read.format("cdc_views")`: the merged view of a table by PySpark's Python Data Source API.

Spark asks the source for its columns and rows in Python processes of its own, which have no session: so no plan of Spark's can
answer. One task runs the SQL of the engine DuckDB over the table's files, and its rows go to the JVM.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from cdc_views.api import Project
from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.engine import files_read, pinned, shown_sql
from cdc_views.engines.snapshot import Snapshot
from cdc_views.errors import UnsupportedError, UsageError
from cdc_views.operations.querying import reading_of_frame
from cdc_views_spark.executors import is_local
from cdc_views_spark.in_place import schema_of
from cdc_views_spark.kernel import in_task

NAME = "cdc_views"
MOST_BYTES = 128_000_000
"""Of a table's files. One task reads all of them, and every row goes through Python. At 97 MB, a million keys, that took about
half of the CPU of Spark's plan (docs/internals/spark.md). Beyond, a plan has more tasks, and this one has all rows in memory."""
_BYTES_PER_THREAD = 16_000_000
_OPTIONS = ("path", "project", "as_of", "where")
_REMEDY = "use `table.dataframe(spark)`, or the view that `cdc-views apply` makes, which Spark's own plan reads in parallel"


def register(session: SparkSession) -> None:
    """Let a session read tables by `format("cdc_views")`; raises `UnsupportedError` unless it is a local one."""
    if not is_local(session):
        raise UnsupportedError(
            f"format {NAME!r} reads the files of a table in one task, so the session has to be of this machine (`local[…]`)",
            remedy=_REMEDY,
        )
    session.dataSource.register(CdcViewsSource)


class CdcViewsSource(DataSource):  # type: ignore[misc]  # PySpark is not typed for mypy
    """A table of a project: the path is its name; `project` is the project file, `as_of` and `where` are as in `query`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        with self._scan() as scan:
            return from_arrow_schema(scan.columns)

    def reader(self, schema: StructType) -> Scan:
        with self._scan() as scan:
            if schema != from_arrow_schema(scan.columns):
                raise UsageError(f"{self.options['path']}: the columns are those of the view, in its order; leave .schema(…) out")
            return scan

    @contextmanager
    def _scan(self) -> Iterator[Scan]:
        unknown = sorted(set(self.options) - set(_OPTIONS))
        if unknown or not self.options.get("path"):
            told = f"option {unknown[0]!r} is unknown" if unknown else "no table is named"
            raise UsageError(f"format {NAME!r}: {told}; load(TABLE) with options project, as_of and where was expected")
        table = Project.load(self.options.get("project", "cdc_views.yml")).table(self.options["path"])
        with reading_of_frame(table, as_of=self.options.get("as_of"), where=self.options.get("where")) as read:
            yield Scan.of(table.name, read)


@dataclass(frozen=True)
class Scan(DataSourceReader):  # type: ignore[misc]
    """The SQL of a read, and the files that it names."""

    sql: str
    columns: pa.Schema
    files: tuple[str, ...]
    threads: int

    @classmethod
    def of(cls, name: str, read: Read) -> Scan:
        """Return the scan of a read; raises `UnsupportedError` where one task should not read, or cannot read, its files."""
        snapshot = pinned(read)
        files = tuple(sorted(files_read(snapshot, read.sources)))
        size = _size(name, snapshot, files)
        sql = shown_sql(snapshot, read)
        threads = min(os.cpu_count() or 1, 1 + size // _BYTES_PER_THREAD)
        return cls(sql, schema_of(sql, files, layout=read.raw.relation.arrow_schema()), files, threads)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        once = pa.RecordBatch.from_pydict({"once": [1]})
        return in_task(self.sql, self.columns, files=self.files, threads=self.threads)([once])


def _size(name: str, snapshot: Snapshot, files: tuple[str, ...]) -> int:
    if snapshot.arrow is not None or any("://" in file for file in files):
        raise UnsupportedError(
            f"{name}: a task cannot open its files (none yet, deletion vectors in raw, or elsewhere)", remedy=_REMEDY
        )
    size = sum(os.stat(file).st_size for file in files)
    if size >= MOST_BYTES:
        told = f"{size / 1e6:,.0f} MB of files are too many for one task; less than {MOST_BYTES / 1e6:,.0f} MB was expected"
        raise UnsupportedError(f"{name}: format {NAME!r}: {told}", remedy=_REMEDY)
    return size
