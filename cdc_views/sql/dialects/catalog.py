"""Every dialect there is."""

from __future__ import annotations

from cdc_views.sql.dialects.base import Dialect
from cdc_views.sql.dialects.bigquery import BigQuery
from cdc_views.sql.dialects.clickhouse import ClickHouse
from cdc_views.sql.dialects.duckdb import DuckDb
from cdc_views.sql.dialects.postgres import Postgres
from cdc_views.sql.dialects.redshift import Redshift
from cdc_views.sql.dialects.snowflake import Snowflake
from cdc_views.sql.dialects.spark import Databricks, Spark
from cdc_views.sql.dialects.trino import Trino

_ALL = (DuckDb, Spark, Databricks, BigQuery, Snowflake, Postgres, Redshift, Trino, ClickHouse)

DIALECTS: dict[str, type[Dialect]] = {kind.name: kind for kind in _ALL}
"""Name → dialect; the first two run here, the others are rendered and parsed."""
