"""The Spark engine: reads are DataFrames, views are SQL in a catalog inside the warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cdc_views.engines.base import (
    FilesEngine,
    Followed,
    FrameEngine,
    Read,
    Sources,
    StatementRead,
    StatementRows,
    StateWrite,
    StreamingEngine,
    ValueForm,
    ViewDefinition,
    Written,
    ask_of,
)
from cdc_views.engines.catalogs import CatalogEngine, Registered
from cdc_views.engines.serving import ServingWrite, for_form
from cdc_views.engines.view_text import view_query, view_statement
from cdc_views.errors import EngineError, UnsupportedError
from cdc_views.model.catalog_names import CatalogName, quoted
from cdc_views.model.strategy import Strategy
from cdc_views.plan.build import Ask, output_names, planned
from cdc_views.plan.nodes import Node
from cdc_views.plan.rewrites import Choice, lowered
from cdc_views.sql import query_sql
from cdc_views.sql.dialects.spark import Spark
from cdc_views.storage.places import Place
from cdc_views.storage.relation import RawTable
from cdc_views.storage.shown_relation import casts_of
from cdc_views_spark import catalogs
from cdc_views_spark.choosing import KERNEL_BYTES, Facts, chosen, spread_of, tasks_of
from cdc_views_spark.comparing import rows_that_differ
from cdc_views_spark.compile import Compiler, named
from cdc_views_spark.config import SparkConfig
from cdc_views_spark.executors import has_arrow
from cdc_views_spark.in_place import InPlace
from cdc_views_spark.kernel import Kernel, task_errors
from cdc_views_spark.raw_files import raw_files
from cdc_views_spark.reading import parts_of_sources, raw_facts
from cdc_views_spark.row_batches import batches_of, in_small_partitions
from cdc_views_spark.session import configured
from cdc_views_spark.spreading import spread
from cdc_views_spark.statements import run_over
from cdc_views_spark.streaming import follow
from cdc_views_spark.tables import delta_sql
from cdc_views_spark.writing import in_its_words, write_files, write_serving, write_state
from cdc_views_spark.writing_in_place import pieces_of, write_in_tasks


def open_spark(*, warehouse: Place, config: SparkConfig | None = None) -> SparkEngine:
    """Return the engine on the active session, or on a new one."""
    is_running = SparkSession.getActiveSession() is not None
    return SparkEngine(configured(warehouse, config or SparkConfig()), stops=not is_running)


class SparkEngine(StreamingEngine, FrameEngine, FilesEngine, CatalogEngine):
    """Runs plans on a session; `stops`: closing the engine stops the session."""

    name = "spark"
    writes_files = True

    def __init__(self, session: SparkSession, *, stops: bool = True, kernel_bytes: int = KERNEL_BYTES) -> None:
        """DuckDB in tasks takes reads (strategy `auto`) and commits of states of fewer than `kernel_bytes` bytes."""
        self._session, self._stops, self._kernel_bytes = session, stops, kernel_bytes

    @property
    def session(self) -> SparkSession:
        """The open session, for callers' own plans."""
        return self._session

    def dataframe(self, read: Read) -> DataFrame:
        """Return the lazy DataFrame of the plan of `read`."""
        facts = Facts.of(self._session, read)
        ask = facts.known(ask_of(read))
        choice = chosen(facts, read.strategy, kernel_bytes=self._kernel_bytes, ask=ask)
        if choice.strategy == Strategy.KERNEL.value:
            if facts.are_opened:
                return InPlace(read, facts.files).dataframe(self._session, spread_of(facts))
            return Kernel(read).dataframe(facts.as_one(), tasks=tasks_of(facts))
        compiler = Compiler(facts.by_source(), dialect=for_form(Spark(), read.form))
        return compiler.dataframe(planned(ask, strategy=choice.strategy))

    def choice(self, read: Read) -> Choice:
        return self._choice(Facts.of(self._session, read), read)

    def _choice(self, facts: Facts, read: Read) -> Choice:
        return chosen(facts, read.strategy, kernel_bytes=self._kernel_bytes, ask=facts.known(ask_of(read)))

    def frame(self, read: Read) -> DataFrame:
        read = replace(read, form=ValueForm.SHOWN)
        facts = Facts.of(self._session, read)
        ask = facts.known(ask_of(read))
        if read.strategy is Strategy.KERNEL:
            shown = self._kernel_frame(facts, read, ask)
        else:  # `auto` too: Spark pushes filters and columns of a frame into a plan
            plan = planned(ask, strategy=read.strategy.value)
            shown = Compiler(facts.by_source()).dataframe(plan)
        casts = {user: kind.sql(dialect="spark") for user, kind in casts_of(read.raw.relation).items()}
        return shown.selectExpr(*(named(name, user, cast=casts.get(user)) for user, name in output_names(ask)))

    def run_statement(self, asked: StatementRead) -> StatementRows:
        # Spark pushes the statement's filters and columns into a plan, not into the kernel
        reads = [replace(one, strategy=Strategy.AUTO) if one.strategy is Strategy.KERNEL else one for one in asked.reads.values()]
        frames = dict(zip(asked.reads, map(self.frame, reads), strict=True))
        return run_over(self._session, asked, frames)

    def _kernel_frame(self, facts: Facts, read: Read, ask: Ask) -> DataFrame:
        chosen(facts, read.strategy, kernel_bytes=self._kernel_bytes, ask=ask)  # raises if executors cannot run it
        if not facts.are_opened:
            told = "a DataFrame takes strategy kernel only in a local session, of files on a local disk"
            raise UnsupportedError(told, remedy="use `query`, or another strategy")
        return InPlace(read, facts.files).dataframe(self._session, spread_of(facts))

    def write_state(self, write: StateWrite) -> Written:
        pieces = pieces_of(self._session, write, kernel_bytes=self._kernel_bytes)
        return write_in_tasks(self._session, pieces) if pieces else write_state(self._session, write)

    def write_serving(self, write: ServingWrite) -> None:
        write_serving(self._session, write)

    def spread(self, function: Callable[[Any], Any], tasks: Sequence[Any], *, sees: Sequence[str]) -> list[Any]:
        return spread(self._session, function, tasks, sees=sees)

    def rows(self, plan: Node, sources: Sources) -> pa.Table:
        compiler = Compiler(parts_of_sources(self._session, sources))
        with in_its_words():
            return compiler.dataframe(lowered(plan)).toArrow()

    def raw(self, raw: RawTable) -> DataFrame:
        """Return the raw table; a missing table has no rows, and missing columns or struct fields are null."""
        return raw_facts(self._session, raw, raw_files(raw))

    def follow(self, followed: Iterable[Followed], *, interval: str | None, stop: Event) -> None:
        follow(self._session, followed, interval=interval, stop=stop)

    def read(self, read: Read) -> pa.Table:
        with in_its_words(), task_errors():
            return self.dataframe(read).toArrow()

    def batches(self, read: Read) -> Iterator[pa.RecordBatch]:
        if not has_arrow(self._session):
            yield from super().batches(read)
            return
        with in_its_words(), task_errors():
            with in_small_partitions(self._session, Facts.of(self._session, read)):
                batches = batches_of(self.dataframe(read))
            yield from batches

    def write_files(self, read: Read, folder: Place) -> list[Place]:
        held = replace(read, form=ValueForm.HELD)
        with task_errors():
            return write_files(self._session, self.dataframe(held), held, folder=folder)

    def sql(self, read: Read) -> str:
        facts = Facts.of(self._session, read)
        if self._choice(facts, read).strategy != Strategy.KERNEL.value:
            return self._plan_sql(read)
        kernel = InPlace(read, facts.files) if facts.are_opened else Kernel(read)
        return kernel.sql(is_pretty=True)

    def _plan_sql(self, read: Read) -> str:
        ask = Facts.of(self._session, read).known(ask_of(read))
        return query_sql(ask, dialect_name="spark", strategy=read.strategy.value, table=delta_sql(read.raw.location))

    def read_sql(self, read: Read) -> pa.Table:
        """Return the rows of the SQL text of the plan of `read`, which must equal the rows of `read`."""
        with in_its_words():
            return self._session.sql(self._plan_sql(read)).toArrow()

    def apply(self, view: ViewDefinition) -> str:
        statement = view_statement(view, dialect_name="spark", table_sql=delta_sql)
        if view.catalog:
            catalogs.create_view(self._session, catalogs.check_view(self._session, view), statement)
            return statement
        try:
            self._session.sql(f"CREATE DATABASE IF NOT EXISTS {quoted(view.schema)}")
            self._session.sql(statement)
        except PySparkException as error:
            raise EngineError(f"Spark cannot create view {view.schema}.{view.name}: {str(error).splitlines()[0]}") from error
        return statement

    def stale_rows(self, view: ViewDefinition) -> int | None:
        name = ".".join(quoted(part) for part in (view.catalog, view.schema, view.name) if part)
        return rows_that_differ(self._session, name, view_query(view, dialect_name="spark", table_sql=delta_sql))

    def locate(self, name: CatalogName) -> str:
        return catalogs.locate(self._session, name)

    def create_table(self, name: CatalogName, schema: pa.Schema, *, comment: str, settings: Mapping[str, str]) -> None:
        catalogs.create_table(self._session, name, schema, comment=comment, settings=settings)

    def register(self, table: Registered) -> None:
        catalogs.register(self._session, table)

    def close(self) -> None:
        if self._stops:
            self._session.stop()
