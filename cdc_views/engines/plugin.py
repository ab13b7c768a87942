"""Plug-ins of engines. Class attributes state what an engine can do: code outside an engine's package never tests its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from cdc_views.errors import ConfigError, UnsupportedError, choose_one
from cdc_views.model.config_part import ConfigPart
from cdc_views.model.extras import needs
from cdc_views.model.plugins import PluginGroup, load_plugin, plugin_names
from cdc_views.storage.places import Place, place_of

if TYPE_CHECKING:
    from cdc_views.engines.base import Engine, FrameEngine, ViewDefinition
    from cdc_views.project import ProjectConfig
    from cdc_views.storage.relation import RawTable


class EnginePlugin(ABC):
    """An installed engine: an entry point of the group `cdc_views.engines` names a subclass.

    Importing the subclass must load neither the engine nor its client; `open` loads them.

    Attributes:
        name: The name in project files and `--engine`, and of the entry point; `title` is the name in messages.
        extra: The extra of `pip install 'cdc-views[…]'` that installs its requirements; None: its own package does.
        options: The model of the project file's key with the engine's name; None: no such key.
        keeps_tables: Raw tables, states and views are its own, not Delta tables of a folder; see `WarehousePlugin`.
        views_name_files: Its views name the files of one snapshot, so they must be applied again after each landing.
        views_read_states: Its views read the newest version of a state and what landed since; they follow every landing.
        streams: It notices new events: `open` returns a `StreamingEngine`.
        spread_from: Bytes of work from which on its engine's tasks are worth their start; None: it has none. See `Engine.spread`.
        session_package: The package of the sessions that `on` takes; None: it takes none.
        statement_dialect: sqlglot's name of the SQL that `Engine.run_statement` takes; None: it takes none.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    extra: ClassVar[str | None] = None
    options: type[ConfigPart] | None = None

    keeps_tables: ClassVar[bool] = False
    views_name_files: ClassVar[bool] = False
    views_read_states: ClassVar[bool] = False
    streams: ClassVar[bool] = False
    spread_from: ClassVar[int | None] = None
    session_package: ClassVar[str | None] = None
    statement_dialect: ClassVar[str | None] = None

    def check_warehouse(self, warehouse: str) -> None:  # noqa: B027  # most engines take any folder
        """Raise `ValueError` if the engine cannot use `warehouse:` of a project file."""

    @abstractmethod
    def open(self, config: ProjectConfig, *, folder: Place) -> Engine:
        """Return the open engine; its own files are under `folder`."""

    def runs_on(self) -> str:
        """Return what the engine runs on here besides Python's packages, without starting it; raises `UnsupportedError` where
        that is missing, `ImportError` for a package.
        """
        return ""

    def on(self, session: Any) -> FrameEngine:  # noqa: ANN401  # of the engine's own package
        """Return the engine on a user's own session, which it never stops."""
        raise UnsupportedError(f"engine {self.name} takes no session", remedy="use `query`")

    def table_sql(self, raw: RawTable) -> str:
        """Return the FROM clause of a raw table in the engine's SQL; default: the table's bare name."""
        return place_of(raw.location).name

    def view_sql(self, config: ProjectConfig, view: ViewDefinition) -> str | None:
        """Return the statement that creates a view; None if it is the dialect's usual statement over `table_sql`."""
        return None

    def catalog(self, config: ProjectConfig) -> str | None:
        """Return the catalog in which `apply` registers views, states and serving tables; empty: views go where they always do,
        and tables nowhere. None if the engine has no catalogs; with them `open` returns a `CatalogEngine`.
        """
        return None

    def server(self, place: str) -> Mapping[str, str]:
        """Return a data contract's description of the views' place; `place` is the warehouse, without any secret."""
        return {"type": "custom", "description": f"{self.title}; the warehouse is {place}"}


def engine_names() -> tuple[str, ...]:
    """Return the names of all installed engines."""
    return plugin_names(PluginGroup.ENGINE)


def engine_plugin(name: str) -> EnginePlugin:
    """Return the plug-in with this name; raises `ConfigError` with a suggestion if it is not installed."""
    known = engine_names()
    if name not in known:
        raise ConfigError(f"there is no engine {name!r}; {choose_one(name, known)}")
    found: EnginePlugin = load_plugin(PluginGroup.ENGINE, name)()
    return found


def engines_that(can: Callable[[EnginePlugin], bool]) -> tuple[str, ...]:
    """Return the names of the installed engines for which `can` is true; skips engines that cannot be loaded."""
    found = []
    for name in engine_names():
        try:
            plugin = engine_plugin(name)
        except UnsupportedError:  # a user who names that engine sees the reason
            continue
        if can(plugin):
            found.append(name)
    return tuple(found)


def plugin_of_session(session: object) -> EnginePlugin:
    """Return the plug-in of the engine that a user's session belongs to; raises `UnsupportedError` if there is none."""
    package = type(session).__module__.partition(".")[0]
    for name in engines_that(lambda plugin: plugin.session_package == package):
        return engine_plugin(name)
    raise UnsupportedError(f"{type(session).__name__} is a session of no installed engine", remedy="give a SparkSession")


def open_engine(name: str, config: ProjectConfig, *, folder: Place) -> Engine:
    """Open an engine. Raises `ConfigError` for an unknown name, `MissingExtraError` if a package it needs is not installed."""
    plugin = engine_plugin(name)
    with needs(f"engine {name}", extra=plugin.extra):
        return plugin.open(config, folder=folder)
