"""The command line `cdc-views`: a thin layer over `cdc_views.api`, and the only importer of typer and rich."""

from __future__ import annotations

from cdc_views.cli.main import main, produce_cassandra, produce_http, produce_kafka, produce_mariadb, produce_postgres

__all__ = ["main", "produce_cassandra", "produce_http", "produce_kafka", "produce_mariadb", "produce_postgres"]
