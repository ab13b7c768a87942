"""The plug-in of Spark; only `open` imports PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_views.engines.plugin import EnginePlugin
from cdc_views.storage.places import Place
from cdc_views_spark.config import SparkConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_views.project import ProjectConfig
    from cdc_views.storage.relation import RawTable
    from cdc_views_spark.engine import SparkEngine


class SparkPlugin(EnginePlugin):
    """Spark: the active session, or a local one with Delta."""

    name = "spark"
    title = "Spark SQL"
    extra = "spark"
    options = SparkConfig
    views_read_states = True
    streams = True
    spread_from = 64 << 20
    session_package = "pyspark"
    statement_dialect = "spark"

    def open(self, config: ProjectConfig, *, folder: Place) -> SparkEngine:
        from cdc_views_spark.engine import open_spark

        return open_spark(warehouse=folder, config=config.options_of(self.name))

    def runs_on(self) -> str:
        import pyspark

        from cdc_views_spark.java import cache_folder, java_home

        return f"Spark {pyspark.__version__}, Java in {java_home(cache_folder())}; jars are kept in {cache_folder()}"

    def on(self, session: SparkSession) -> SparkEngine:
        from cdc_views_spark.engine import SparkEngine

        return SparkEngine(session, stops=False)

    def catalog(self, config: ProjectConfig) -> str:
        found: SparkConfig = config.options_of(self.name)
        return found.catalog or ""

    def table_sql(self, raw: RawTable) -> str:
        from cdc_views_spark.tables import delta_sql

        return delta_sql(raw.location)
