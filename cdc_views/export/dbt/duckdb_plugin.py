"""A dbt-duckdb plugin that sets the files of the raw tables in DuckDB, so that each run sees all landed events.

In `profiles.yml`, under the DuckDB target::

    plugins:
      - module: cdc_views.export.dbt.duckdb_plugin
        alias: cdc_views
        config: {project: path/to/cdc_views.yml}

The sources of `cdc-views dbt export` call `read_parquet` on `getvariable('cdc_views_raw_<model>')`; the plugin sets these
variables in every session. It copies and creates nothing, so that threads do not disturb each other. A run sees one version.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from cdc_views.api import Project
from cdc_views.errors import CdcViewsError
from cdc_views.model.extras import needs
from cdc_views.operations.raw_files import files_of, raw_variable, set_variable

with needs("dbt's plugin", extra="dbt"):
    from dbt.adapters.duckdb.plugins import BasePlugin
    from dbt_common.exceptions import DbtRuntimeError
    from dbt_common.invocation import get_invocation_id


class Plugin(BasePlugin):  # type: ignore[misc]
    """The class that dbt-duckdb loads by this name from a module."""

    def initialize(self, config: dict[str, Any]) -> None:
        """Store `config` of the profile; `project` is the project file."""
        self._project = str(config.get("project", "cdc_views.yml"))
        self._folder = TemporaryDirectory(prefix="cdc-views-dbt-")
        self._lock = Lock()
        self._seen: tuple[str, dict[str, list[str]]] = ("", {})

    def configure_cursor(self, cursor: Any) -> None:
        """Set a variable for each table of the project; raises `DbtRuntimeError` if a table cannot be read."""
        try:
            found = self._files()
        except CdcViewsError as error:
            raise DbtRuntimeError(f"cdc_views: {error}") from error
        for variable, files in found.items():
            cursor.execute(set_variable(variable, files))

    def _files(self) -> dict[str, list[str]]:
        """Return files by variable, as of this run's first session; dbt keeps a plugin for all runs of a process."""
        run = get_invocation_id()
        with self._lock:
            if self._seen[0] != run:
                tables, folder = Project.load(self._project).tables, Path(self._folder.name)
                of_raw = "what a dbt model makes of raw alone"
                self._seen = (run, {raw_variable(t.name): files_of(t, folder, what=of_raw) for t in tables})
            return self._seen[1]
