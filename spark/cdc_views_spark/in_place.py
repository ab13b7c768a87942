"""The strategy `kernel` where a task can open the files itself: the text that the engine DuckDB runs, in one task of Spark.

Spark then neither reads Delta's log nor scans files, and no fact goes from the JVM to Python: rows alone come back. DuckDB has
threads of its own, and sorts: so one task takes all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_views.engines.base import Read
from cdc_views.engines.duckdb.connections import connect_locked, in_its_words
from cdc_views.engines.duckdb.engine import files_read, pinned, sql_over
from cdc_views.engines.snapshot import Snapshot
from cdc_views.model.strategy import Strategy
from cdc_views_spark.kernel import in_task
from cdc_views_spark.raw_files import RawFiles


@dataclass(frozen=True)
class InPlace:
    """One read of files that a task can open (`choosing.Facts.are_opened`); `files` are raw's, without a state."""

    read: Read
    files: RawFiles | None

    @cached_property
    def _snapshot(self) -> Snapshot:
        return pinned(self.read, version=None if self.files is None else self.files.version)

    def sql(self, *, is_pretty: bool = False) -> str:
        """Return the text."""
        return sql_over(self._snapshot, replace(self.read, strategy=Strategy.AUTO), is_pretty=is_pretty)

    def dataframe(self, session: SparkSession, *, threads: int) -> DataFrame:
        """Return the lazy rows, by `threads` of DuckDB; raises `EngineError` for SQL that DuckDB cannot bind."""
        sql, files = self.sql(), sorted(files_read(self._snapshot, self.read.sources))
        schema = schema_of(sql, files)
        one_task = session.range(0, 1, 1, 1)  # it runs for a batch of one row, which the SQL does not read
        return one_task.mapInArrow(in_task(sql, schema, files=files, threads=threads), from_arrow_schema(schema))


def schema_of(sql: str, files: Collection[str]) -> pa.Schema:
    """Return the columns of the SQL's rows, from DuckDB here; so an error in a condition shows before Spark runs anything."""
    with in_its_words(), connect_locked(files) as connection:
        return connection.sql(f"SELECT * FROM ({sql}) AS bound LIMIT 0").to_arrow_table().schema
