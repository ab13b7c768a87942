"""A project in catalogs: the raw table that landing begins there, the state and the serving table that `apply` registers."""

from __future__ import annotations

import json

from cdc_views.engines.base import Engine
from cdc_views.engines.catalogs import CatalogEngine, NoSuchTableError, Registered
from cdc_views.engines.plugin import EnginePlugin
from cdc_views.landing.delta import raw_log_settings
from cdc_views.landing.raw_table import is_delta, named_raw, raw_description
from cdc_views.model.catalog_names import CatalogName
from cdc_views.operations.applied import applied_file
from cdc_views.operations.context import TableContext
from cdc_views.operations.known_raw import was_seen
from cdc_views.operations.view_names import view_of
from cdc_views.state.identity import RawMismatchError
from cdc_views.state.state_table import is_built
from cdc_views.storage.places import Place, write_whole
from cdc_views.storage.relation import RawTable

STATE, SERVING = "__state", "__serving"
"""What the names of a registered state and serving table end with; the rest is the view's."""


def begun(table: TableContext, *, accepts: bool = False) -> None:
    """Create the raw table in its catalog if `raw.table` names one that is missing there; nothing for a path.

    Raises `RawMismatchError` for a table that was seen before, unless `accepts` is set: its events would be lost without a word.
    """
    name = table.catalog_name
    if name is None or table.is_external:
        return
    try:
        location = table.location
    except NoSuchTableError as error:
        if not accepts and was_seen(table):
            raise RawMismatchError(
                f"{table.name}: its raw table {name} was there before, and its catalog has it no more; put it back, or correct "
                f"`raw.table`. To begin an empty one: `cdc-views rebuild {table.name} --accept`"
            ) from error
        location = _created(table, name)
    named_raw(RawTable(location, table.relation))


def _created(table: TableContext, name: CatalogName) -> str:
    comment = raw_description(RawTable("", table.relation), format_name=table.format.name)
    with table.project.catalogs() as engine:
        engine.create_table(name, table.relation.arrow_schema(), comment=comment, settings=raw_log_settings())
        return table.project.located(name, engine=engine)


def names_of(table: TableContext) -> tuple[str, ...] | None:
    """Return the names that the catalog of the project file has, by this project's records; None without a catalog."""
    plugin = table.project.engine_plugin
    if table.project.is_remote or not plugin.catalog(table.project.config):
        return None
    applied = (view_of(table, plugin),) if applied_file(table).exists() else ()
    return (*applied, *registered(table))


def register_tables(engine: Engine, table: TableContext, plugin: EnginePlugin) -> None:
    """Register the state and the serving table, as far as they are there, in the project's catalog, if it has one."""
    wanted = _wanted(table, plugin)
    if not wanted or not isinstance(engine, CatalogEngine):
        return
    for one in wanted:
        engine.register(one)
    file = _file(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps({str(one.name): one.location for one in wanted}, indent=1) + "\n")


def is_registered(table: TableContext, plugin: EnginePlugin) -> bool:
    """Whether the catalog knows state and serving table where they are now, as far as this project's record tells."""
    wanted = {str(one.name): one.location for one in _wanted(table, plugin)}
    return not wanted or wanted.items() <= registered(table).items()


def registered(table: TableContext) -> dict[str, str]:
    """Return the names and locations of what was registered last; reads the project's record, and starts no engine."""
    try:
        found: dict[str, str] = json.loads(_file(table).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found


def _wanted(table: TableContext, plugin: EnginePlugin) -> list[Registered]:
    catalog = plugin.catalog(table.project.config)
    if not catalog:
        return []
    found, keyspace, view = [], table.config.keyspace, table.config.view_name
    if is_built(table.state_location):
        name = CatalogName(catalog, keyspace, f"{view}{STATE}")
        found.append(Registered(name, table.state_location, str(table.generations.root)))
    serving = table.serving_location
    if serving is not None and is_delta(serving):
        name = CatalogName(catalog, keyspace, f"{view}{SERVING}")
        found.append(Registered(name, serving, str(table.project.warehouse / "serving")))
    return found


def _file(table: TableContext) -> Place:
    return applied_file(table).with_suffix(".catalog.json")
