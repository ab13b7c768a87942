"""The Spark engine: reads compile to DataFrames, views are SQL in a catalog kept inside the warehouse."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from threading import Event
from types import TracebackType

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cdc_views.engines.ask_of_read import ask_of
from cdc_views.engines.base import Read, Sources, StateWrite, ViewDefinition
from cdc_views.engines.serving import ServingWrite
from cdc_views.engines.streaming import Followed
from cdc_views.errors import EngineError
from cdc_views.plan.build import build
from cdc_views.plan.nodes import Node
from cdc_views.plan.parts import Source
from cdc_views.plan.rewrites import choose, lower, prune
from cdc_views.sql import ViewSql, generate, query_sql
from cdc_views.storage.relation import RawTable
from cdc_views_spark.compile import Compiler
from cdc_views_spark.layout import in_layout
from cdc_views_spark.serving import write_serving
from cdc_views_spark.session import open_session
from cdc_views_spark.state import parts_of_sources, write_state
from cdc_views_spark.streaming import follow


def open_spark(*, warehouse: Path) -> SparkEngine:
    """Return the engine on the active session, or on one of its own."""
    is_running = SparkSession.getActiveSession() is not None
    return SparkEngine(open_session(warehouse=warehouse), stops=not is_running)


class SparkEngine:
    """Runs plans on a session; closing the engine stops the session, unless it is somebody else's (`stops`)."""

    name = "spark"
    leaves_out_covered = False

    def __init__(self, session: SparkSession, *, stops: bool = True) -> None:
        self._session, self._stops = session, stops

    def __enter__(self) -> SparkEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def session(self) -> SparkSession:
        """The open session, for callers that run plans of their own."""
        return self._session

    def dataframe(self, read: Read) -> DataFrame:
        """Return the lazy DataFrame of `read`, in exact form."""
        chosen = choose(read.strategy.value)
        plan = prune(lower(build(ask_of(read)), strategy=chosen.strategy))
        if read.sources is None:
            return Compiler({Source.ALL: lambda: self.raw(read.raw)}).dataframe(plan)
        return Compiler(parts_of_sources(self._session, read.sources)).dataframe(plan)

    def write_state(self, write: StateWrite) -> None:
        """See `Engine.write_state`."""
        write_state(self._session, write)

    def write_serving(self, write: ServingWrite) -> None:
        """See `Engine.write_serving`."""
        write_serving(self._session, write)

    def rows(self, plan: Node, sources: Sources) -> pa.Table:
        """See `Engine.rows`."""
        compiler = Compiler(parts_of_sources(self._session, sources))
        try:
            return compiler.dataframe(prune(lower(plan, strategy="aggregate"))).toArrow()
        except PySparkException as error:
            raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error

    def raw(self, raw: RawTable) -> DataFrame:
        """Return the raw table; one that does not exist yet has no rows, a column or struct field it lacks is null."""
        if not (Path(raw.location) / "_delta_log").is_dir() and "://" not in raw.location:
            return self._session.createDataFrame(raw.relation.arrow_schema().empty_table())
        return in_layout(self._session.read.format("delta").load(raw.location), raw.relation)

    def follow(self, followed: Iterable[Followed], *, interval: str | None, stop: Event) -> None:
        """See `streaming.follow`."""
        follow(self._session, followed, interval=interval, stop=stop)

    def read(self, read: Read) -> pa.Table:
        """See `Engine.read`."""
        try:
            return self.dataframe(read).toArrow()
        except PySparkException as error:
            raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error

    def sql(self, read: Read) -> str:
        """See `Engine.sql`."""
        table = _delta(read.raw)
        return query_sql(ask_of(read), dialect_name="spark", strategy=read.strategy.value, table=table)

    def read_sql(self, read: Read) -> pa.Table:
        """Return what the SQL text of `read` gives, which must equal `read`."""
        try:
            return self._session.sql(self.sql(read)).toArrow()
        except PySparkException as error:
            raise EngineError(f"Spark: {str(error).splitlines()[0]}") from error

    def apply(self, view: ViewDefinition) -> str:
        """See `Engine.apply`."""
        statement = generate(
            view.raw.relation,
            dialect_name="spark",
            strategy=view.strategy.value,
            view=ViewSql(view.schema, view.name),
            table=_delta(view.raw),
        )
        try:
            quoted = view.schema.replace("`", "``")
            self._session.sql(f"CREATE DATABASE IF NOT EXISTS `{quoted}`")
            self._session.sql(statement)
        except PySparkException as error:
            raise EngineError(f"Spark cannot create view {view.schema}.{view.name}: {str(error).splitlines()[0]}") from error
        return statement

    def close(self) -> None:
        """Stop the session where it is ours."""
        if self._stops:
            self._session.stop()


def _delta(raw: RawTable) -> str:
    location = raw.location if "://" in raw.location else str(Path(raw.location).resolve())
    return "delta.`" + location.replace("`", "``") + "`"
