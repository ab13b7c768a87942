"""The name of a table's view, and whose it says that it is."""

from __future__ import annotations

from cdc_views.engines.plugin import EnginePlugin
from cdc_views.model.catalog_names import CatalogName
from cdc_views.operations.context import TableContext
from cdc_views.project.paths import slug_of


def view_of(table: TableContext, plugin: EnginePlugin) -> str:
    """Return the view's name as messages have it: with its catalog, if the project file names one."""
    catalog, keyspace, view = plugin.catalog(table.project.config), table.config.keyspace, table.config.view_name
    return str(CatalogName(catalog, keyspace, view)) if catalog else f"{keyspace}.{view}"


def owner_of(table: TableContext) -> str:
    """Return whose a view in a catalog is, in letters that need no quotes."""
    return f"{slug_of(table.project.config.name)}/{table.config.slug}"
