"""What an engine's package offers before anything is opened: the engine's name, and facts that decide what is asked of it.

Facts are class attributes, as a dialect's are: no code outside an engine's package asks for an engine by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from cdc_views.errors import ConfigError, UnsupportedError, did_you_mean
from cdc_views.model.config_part import ConfigPart
from cdc_views.model.extras import needs
from cdc_views.model.plugins import PluginGroup, load_plugin, plugin_names

if TYPE_CHECKING:
    from cdc_views.engines.base import Engine, ViewDefinition
    from cdc_views.project import ProjectConfig
    from cdc_views.storage.relation import RawTable


class EnginePlugin(ABC):
    """An engine that is installed, by an entry point of the group `cdc_views.engines` that names a subclass.

    Importing the subclass must load neither the engine nor its client: that is what `open` does.
    """

    name: ClassVar[str]
    """What a project file and `--engine` call it; the entry point has the same name."""
    title: ClassVar[str]
    """What people call it, for messages."""
    extra: ClassVar[str | None] = None
    """The extra of `pip install 'cdc-views[…]'` that brings what it needs; None: its own package does."""
    options: type[ConfigPart] | None = None
    """What a project file may say under a key of the engine's name; None: there is no such key."""

    keeps_tables: ClassVar[bool] = False
    """Whether raw tables, states and views are its own, and not Delta tables of a folder; see `WarehousePlugin`."""
    views_name_files: ClassVar[bool] = False
    """Whether its views name the files of one snapshot, so that they are applied again after each landing."""
    streams: ClassVar[bool] = False
    """Whether it notices when something has landed; what `open` returns is a `StreamingEngine`."""

    def check_warehouse(self, warehouse: str) -> None:  # noqa: B027  # most engines take any folder
        """Raise `ValueError` where `warehouse:` of a project file is no place that the engine can use."""

    @abstractmethod
    def open(self, config: ProjectConfig, *, folder: Path) -> Engine:
        """Return the engine, open; what it keeps of its own is under `folder`."""

    def table_sql(self, raw: RawTable) -> str:
        """Return a raw table as text after FROM, in SQL that the engine runs; default: the table's bare name."""
        return Path(raw.location).name

    def view_sql(self, config: ProjectConfig, view: ViewDefinition) -> str | None:
        """Return the statement that creates a view; None where it is the one over `table_sql`, as of any dialect."""
        return None

    def server(self, place: str) -> Mapping[str, str]:
        """Return how a data contract describes where the views are; `place` is the warehouse, without any secret."""
        return {"type": "custom", "description": f"{self.title}; the warehouse is {place}"}


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines that are installed."""
    return plugin_names(PluginGroup.ENGINE)


def engine_plugin(name: str) -> EnginePlugin:
    """Return the plug-in of that name; raises `ConfigError` with a suggestion where none is installed."""
    known = engine_names()
    if name not in known:
        raise ConfigError(f"there is no engine {name!r}{did_you_mean(name, known)}")
    found: EnginePlugin = load_plugin(PluginGroup.ENGINE, name)()
    return found


def engines_that(can: Callable[[EnginePlugin], bool]) -> tuple[str, ...]:
    """Return the names of the installed engines for which `can` is true, without those that cannot be loaded."""
    found = []
    for name in engine_names():
        try:
            plugin = engine_plugin(name)
        except UnsupportedError:  # whoever names that engine reads why
            continue
        if can(plugin):
            found.append(name)
    return tuple(found)


def open_engine(name: str, config: ProjectConfig, *, folder: Path) -> Engine:
    """Return an open engine that keeps what is its own under `folder`.

    Raises `ConfigError` for an unknown name, `MissingExtraError` where a package it needs is not installed.
    """
    plugin = engine_plugin(name)
    with needs(f"engine {name}", extra=plugin.extra):
        return plugin.open(config, folder=folder)
