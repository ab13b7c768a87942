"""The plug-in of DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cdc_views.engines.plugin import EnginePlugin
from cdc_views.storage.places import Place, place_of

if TYPE_CHECKING:
    from cdc_views.engines.base import ViewDefinition
    from cdc_views.engines.duckdb.engine import DuckDbEngine
    from cdc_views.project import ProjectConfig
    from cdc_views.storage.relation import RawTable

_DATABASE = "views.duckdb"


class DuckDbPlugin(EnginePlugin):
    """DuckDB in this process; views are kept in a database file of the warehouse."""

    name = "duckdb"
    title = "DuckDB"
    views_name_files = True
    statement_dialect = "duckdb"

    def open(self, config: ProjectConfig, *, folder: Place) -> DuckDbEngine:
        from cdc_views.engines.duckdb.engine import DuckDbEngine

        return DuckDbEngine(folder / _DATABASE)

    def table_sql(self, raw: RawTable) -> str:
        # the current files, or a scan of the table if it has none yet
        if _has_files(raw):
            from cdc_views.engines.duckdb.tables import from_clause
            from cdc_views.engines.snapshot import snapshot_of

            return from_clause(snapshot_of(raw), raw)
        return "delta_scan('" + raw.location.replace("'", "''") + "')"

    def view_sql(self, config: ProjectConfig, view: ViewDefinition) -> str | None:
        if view.sources is None and view.events is None and not _has_files(view.raw):  # its text names no files
            return None
        from cdc_views.engines.duckdb.engine import view_statement

        return view_statement(view)

    def server(self, place: str) -> Mapping[str, str]:
        return {"type": "duckdb", "database": f"{place.rstrip('/')}/{_DATABASE}"}


def _has_files(raw: RawTable) -> bool:
    if not place_of(raw.location).exists():  # then Delta and DuckDB need not be imported
        return False
    from cdc_views.landing import raw_log

    log = raw_log(raw)
    return log is not None and bool(log.added)
