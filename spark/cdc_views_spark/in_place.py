"""The strategy `kernel` where tasks can open the files themselves: the text that the engine DuckDB runs, in tasks of Spark.

Spark then neither reads Delta's log nor scans files, and no fact goes from the JVM to Python: rows alone come back. One task
takes a small read, for DuckDB has threads of its own. Several tasks take a large state, each one the files of some buckets.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from cdc_views.engines.base import Read, ask_of
from cdc_views.engines.buckets import by_bucket
from cdc_views.engines.duckdb.connections import connect_locked, in_its_words, locked_settings
from cdc_views.engines.duckdb.engine import files_read, pinned, sql_over
from cdc_views.engines.duckdb.types import literal
from cdc_views.engines.snapshot import Snapshot
from cdc_views.model.strategy import Strategy
from cdc_views.plan.build import build
from cdc_views.plan.nodes import Ordered
from cdc_views_spark.compile import ordered
from cdc_views_spark.kernel import in_tasks
from cdc_views_spark.raw_files import RawFiles

_A_FILE = "\0"
_A_FILES = re.compile(f"{_A_FILE}(?:, {_A_FILE})*")
_MOST_BOUND = 256
_BOUND: dict[tuple[str, pa.Schema], pa.Schema] = {}
"""The columns of texts that were bound before, without the names of files: to bind a text takes a tenth of a small read."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a read is spread: over a task for each text of `digits` binary digits, which begins digests of partitions."""

    digits: int = 0
    threads: int = 1
    """Of DuckDB in each task."""

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return 1 << self.digits


@dataclass(frozen=True)
class InPlace:
    """One read of files that a task can open (`choosing.Facts.are_opened`); `files` are raw's, without a state."""

    read: Read
    files: RawFiles | None

    def sql(self, *, is_pretty: bool = False) -> str:
        """Return the text of the whole read, which a task runs over the facts of its buckets."""
        return self._text(self.read, self._snapshot(self.read), is_pretty=is_pretty)

    def dataframe(self, session: SparkSession, spread: Spread) -> DataFrame:
        """Return the lazy rows; raises `EngineError` for SQL that DuckDB cannot bind."""
        sources = self.read.sources
        reads = [self.read] if sources is None else [replace(self.read, sources=s) for s in by_bucket(sources, spread.digits)]
        at_once = min(len(reads), session.sparkContext.defaultParallelism)
        share = f"SET memory_limit = '{max(1, 80 // at_once)}%'"  # DuckDB's own limit, for all tasks together
        texts, schema = list[tuple[tuple[str, ...], str]](), pa.schema([])
        for number, read in enumerate(reads):
            snapshot = self._snapshot(read)
            sql, files = self._text(read, snapshot), sorted(files_read(snapshot, read.sources))
            if number == 0:
                schema = schema_of(sql, files, layout=read.raw.relation.arrow_schema())
            texts.append(((share, *locked_settings(files, threads=spread.threads)), sql))
        # task n gets one row, the number n
        columns = from_arrow_schema(schema, prefer_timestamp_ntz=True)
        rows = session.range(0, len(texts), 1, len(texts)).mapInArrow(in_tasks(texts, schema), columns)
        if len(texts) == 1:
            return rows
        plan = build(ask_of(self.read))
        return ordered(rows, plan) if isinstance(plan, Ordered) else rows

    def _snapshot(self, read: Read) -> Snapshot:
        return pinned(read, version=None if self.files is None else self.files.version)

    def _text(self, read: Read, snapshot: Snapshot, *, is_pretty: bool = False) -> str:
        return sql_over(snapshot, replace(read, strategy=Strategy.AUTO), is_pretty=is_pretty)


def schema_of(sql: str, files: Collection[str], *, layout: pa.Schema) -> pa.Schema:
    """Return the columns of the SQL's rows, from DuckDB here; so an error in a condition shows before Spark runs anything.

    `layout` is that of the files. Which ones the text names changes nothing, so texts that differ in them are bound once.
    """
    shape = sql
    for file in files:
        shape = shape.replace(literal(file), _A_FILE)
    key = _A_FILES.sub(_A_FILE, shape), layout
    found = _BOUND.get(key)
    if found is None:
        with in_its_words(), connect_locked(files) as connection:
            found = connection.sql(f"SELECT * FROM ({sql}) AS bound LIMIT 0").to_arrow_table().schema
        if len(_BOUND) >= _MOST_BOUND:
            _BOUND.clear()  # threads that read meanwhile bind once more
        _BOUND[key] = found
    return found
