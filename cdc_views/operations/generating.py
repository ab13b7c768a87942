"""`generate`: the SQL of a table's view, in any dialect. Opens nothing if no events have landed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cdc_views.engines.base import Read, ViewDefinition
from cdc_views.engines.plugin import EnginePlugin, engine_names, engine_plugin
from cdc_views.engines.view_text import view_statement
from cdc_views.engines.warehouses import WarehousePlugin, warehouse_plugin
from cdc_views.model.strategy import Strategy
from cdc_views.model.style import Style
from cdc_views.operations.context import TableContext
from cdc_views.operations.reading import strategy_of, style_of
from cdc_views.operations.view_names import owner_of
from cdc_views.sql.dialects import dialect_class
from cdc_views.storage.places import place_of
from cdc_views.storage.relation import RawTable


def generate_view(
    table: TableContext, dialect: str | None = None, *, strategy: str | Strategy | None = None, style: str | Style = Style.PLAIN
) -> str:
    """Return the statement that creates the view; default dialect: the one of the project's engine.

    With style `macros`, several statements, parted by semicolons: the definitions that the views of its schema share, then the
    view. Raises `UnsupportedError` for a dialect without macros.
    """
    if _may_have_landed(table):
        from cdc_views.operations.ingest import adapted

        if not reads_table(table, dialect or table.project.config.engine):
            adapted(table)
    dialect = dialect or table.project.config.engine
    return view_sql(table, dialect, strategy=strategy_of(table, strategy), style=style_of(style))


def view_sql(table: TableContext, dialect: str, *, strategy: Strategy, style: Style = Style.PLAIN) -> str:
    """Return the statement that creates the view in a dialect; `style`: see `generate_view`."""
    engine = engine_of(dialect)
    view = replace(definition_on(table, engine, strategy=strategy), style=style)
    return statement_of(table, view, dialect, engine=engine)


def statement_of(table: TableContext, view: ViewDefinition, dialect: str, *, engine: EnginePlugin | None) -> str:
    """Return the statement of a view in a dialect, of `engine` if that has one."""
    is_of_raw = view.followed is None and view.events is None and view.sources is None and not table.project.is_remote
    if is_of_raw and _may_have_landed(table):
        from cdc_views.operations.ingest import check_raw_is_whole

        check_raw_is_whole(table, what="a view of raw alone")
    if engine is not None and (text := engine.view_sql(table.project.config, view)) is not None:
        return text

    def table_sql(location: str) -> str:
        return Path(location).name if engine is None else engine.table_sql(RawTable(location, table.relation))

    return view_statement(view, dialect_name=dialect, table_sql=table_sql)


def engine_of(dialect: str) -> EnginePlugin | None:
    """Return the plug-in of the engine that runs a dialect, None if none does."""
    runs_on = dialect_class(dialect).engine_name or dialect
    return engine_plugin(runs_on) if runs_on in engine_names() else None


def sql_folder(
    tables: Sequence[TableContext], dialect: str, *, strategy: Strategy | None = None, style: Style = Style.PLAIN
) -> dict[str, str] | None:
    """Return SQL files, path → text, that create raw tables and views in a warehouse without this tool; None for other dialects.

    For a project with local raw tables, the files put raw tables into a dataset of their own, beside each keyspace's views.
    """
    from cdc_views.operations.sources import state_definition

    if (plugin := warehouse_plugin(dialect)) is None:
        return None
    taken = (taken_away(table, plugin, strategy=strategy or table.config.view.strategy) for table in tables)
    definitions = [replace(view, style=style) for view in taken]
    states = [replace(state_definition(table), raw=view.raw) for table, view in zip(tables, definitions, strict=True)]
    return dict(plugin.folder(tables[0].project.config, definitions, states))


def taken_away(table: TableContext, warehouse: WarehousePlugin, *, strategy: Strategy | None = None) -> ViewDefinition:
    """Return the table's view for a warehouse, whether or not the project uses that warehouse yet."""
    strategy = strategy or table.config.view.strategy
    if table.project.is_remote:
        return definition_of(table, strategy=strategy)
    keyspace = table.config.keyspace or table.project.config.name
    raw = RawTable(warehouse.location_beside(keyspace, table.config.slug), table.relation)
    return ViewDefinition(keyspace, table.config.view_name, raw, strategy)


def definition_of(table: TableContext, *, strategy: Strategy | None = None) -> ViewDefinition:
    """Return the table's view for the project's engine; `strategy` defaults to the project file's."""
    return definition_on(table, table.project.engine_plugin, strategy=strategy)


def definition_on(table: TableContext, engine: EnginePlugin | None, *, strategy: Strategy | None = None) -> ViewDefinition:
    """Return the table's view for an engine, None for a dialect without one; otherwise as `definition_of`."""
    if (direct := direct_definition(table, engine, strategy=strategy)) is not None:
        return direct
    strategy = strategy or table.config.view.strategy
    if table.project.is_remote:
        return ViewDefinition(_schema_of(table), table.config.view_name, table.raw, strategy, state=table.config.slug)
    view = _in_catalog(ViewDefinition(_schema_of(table), table.config.view_name, table.raw, strategy), table, engine)
    if engine is None or not _may_have_landed(table):
        return view
    from cdc_views.operations.sources import followed_state, sources_for

    if engine.views_read_states:
        return replace(view, followed=followed_state(table))
    if engine.views_name_files:
        return replace(view, sources=sources_for(table, Read(table.raw, as_of=0)))
    return view  # of raw alone; with sources it would pass for a view of state and tail


def reads_table(table: TableContext, dialect: str) -> bool:
    """Return whether the view in a dialect reads an external table itself."""
    return direct_definition(table, engine_of(dialect)) is not None


def direct_definition(
    table: TableContext, engine: EnginePlugin | None, *, strategy: Strategy | None = None
) -> ViewDefinition | None:
    """Return the view on an engine that reads an external table's events themselves; None if the view needs a copy of them."""
    if not table.is_external:
        return None
    from cdc_views.operations.external_events import events_read

    events = events_read(table, engine).read
    if events is None:
        return None
    strategy = strategy or table.config.view.strategy
    return _in_catalog(
        ViewDefinition(_schema_of(table), table.config.view_name, table.raw, strategy, events=events), table, engine
    )


def _in_catalog(view: ViewDefinition, table: TableContext, engine: EnginePlugin | None) -> ViewDefinition:
    """The view in the catalog that the project file names, if the engine has such a thing."""
    catalog = "" if engine is None else engine.catalog(table.project.config)
    return replace(view, catalog=catalog, owner=owner_of(table)) if catalog else view


def _schema_of(table: TableContext) -> str:
    """The namespace of the table's view."""
    remote = table.project.is_remote
    return table.project.warehouse_plugin.view_schema(table.project.config) if remote else table.config.keyspace


def _may_have_landed(table: TableContext) -> bool:
    """Return False if neither the raw table's folder nor the warehouse exists, without the second that Delta's import takes."""
    if table.project.is_remote or table.is_external:
        return True
    return place_of(table.location).exists() or table.project.warehouse.exists()
