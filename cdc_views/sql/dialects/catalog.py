"""Every dialect there is."""

from __future__ import annotations

from cdc_views.sql.dialects.base import Dialect
from cdc_views.sql.dialects.bigquery import BigQuery
from cdc_views.sql.dialects.clickhouse import ClickHouse
from cdc_views.sql.dialects.duckdb import DuckDb
from cdc_views.sql.dialects.postgres import Postgres
from cdc_views.sql.dialects.spark import Databricks, Spark

DIALECTS: dict[str, type[Dialect]] = {kind.name: kind for kind in (DuckDb, Spark, Databricks, BigQuery, ClickHouse, Postgres)}
"""Name → dialect; the first two run here, the others are rendered and parsed."""
