"""A dbt-duckdb plugin that shows a project's raw tables as views, so that each run sees what has landed until then.

In `profiles.yml`, under the DuckDB target::

    plugins:
      - module: cdc_views.dbt.duckdb_plugin
        alias: cdc_views
        config: {project: path/to/cdc_views.yml}

Nothing is copied: a view reads the active Parquet files of the raw table's newest version, as Arrow.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from dbt.adapters.duckdb.plugins import BasePlugin

from cdc_views.api import Project
from cdc_views.engines.snapshot import snapshot_of
from cdc_views.errors import ConfigError
from cdc_views.project.paths import is_url
from cdc_views.retention import check_raw_is_whole
from cdc_views.table import Table

TABLE = "cdc_views_table"
"""The entry of a source's `meta` that names the table of the project."""


class Plugin(BasePlugin):  # type: ignore[misc]
    """What dbt-duckdb loads by this name from a module."""

    def initialize(self, config: dict[str, Any]) -> None:
        """Take `config` of the profile; `project` is the project file."""
        self._project = str(config.get("project", "cdc_views.yml"))

    def load(self, source_config: Any) -> ds.Dataset | pa.Table:
        """Return the facts of the raw table as of now; a table of which nothing has landed has none.

        Raises:
            ConfigError: The source does not say which table it is, or it is not on this machine.
        """
        name = source_config.get(TABLE)
        if name is None:
            raise ConfigError(f"source {source_config.name} has no `meta: {{{TABLE}: …}}`; write it by `cdc-views dbt export`")
        return facts_of(Project.load(self._project).table(str(name)))

    def default_materialization(self) -> str:
        """A view: raw tables are large."""
        return "view"


def facts_of(table: Table) -> ds.Dataset | pa.Table:
    """Return the facts of a table's raw table as of now, in the columns of the raw layout."""
    table.adapt()
    check_raw_is_whole(table, what="what a dbt model makes of raw alone")
    snapshot = snapshot_of(table.raw)
    if snapshot.arrow is not None:
        return snapshot.arrow
    if is_url(table.raw.location):
        raise ConfigError(f"{table.name}: {table.raw.location} is not on this machine, where DuckDB would read it; use dbt-spark")
    return ds.dataset(list(snapshot.files), schema=table.relation.arrow_schema(), format="parquet")
