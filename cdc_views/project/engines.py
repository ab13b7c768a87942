"""Engines and raw formats in a project file, which are plug-ins; an engine is loaded if the file names it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Protocol, Union

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from cdc_views.errors import UnsupportedError
from cdc_views.formats.registry import format_class
from cdc_views.model.config_part import ConfigPart
from cdc_views.model.plugins import PluginGroup, load_plugin, plugin_names


class ProjectEngine(Protocol):
    """The part of an engine's plug-in that checks project files; `cdc_views.engines.plugin` has the whole."""

    options: type[ConfigPart] | None
    """The model of the key that has the engine's name; None: there is no such key."""

    keeps_tables: bool
    """Whether raw tables are its own, which no other engine reads."""

    def check_warehouse(self, warehouse: str) -> None:
        """Raise `ValueError` if the engine cannot use `warehouse:`."""


def project_engine(name: str) -> ProjectEngine:
    """Return the installed engine called `name`."""
    found: ProjectEngine = load_plugin(PluginGroup.ENGINE, name)()
    return found


def _check_name(value: str, *, group: PluginGroup) -> str:
    known = plugin_names(group)
    if value not in known:
        raise PydanticCustomError("enum", "one of {known} was expected", {"known": list(known)})
    return value


def _list_names(schema: dict[str, Any], *, group: PluginGroup) -> None:
    schema["enum"] = list(plugin_names(group))


EngineName = Annotated[
    str,
    AfterValidator(partial(_check_name, group=PluginGroup.ENGINE)),
    Field(strict=True, json_schema_extra=partial(_list_names, group=PluginGroup.ENGINE)),
]

FormatName = Annotated[
    str,
    AfterValidator(partial(_check_name, group=PluginGroup.FORMAT)),
    Field(strict=True, json_schema_extra=partial(_list_names, group=PluginGroup.FORMAT)),
]


def any_format_options() -> Any:
    """Return the union of the option models of all installed formats, except formats that cannot be loaded."""
    models: list[Any] = [None]
    for name in plugin_names(PluginGroup.FORMAT):
        with suppress(UnsupportedError):  # a project that names this format gets the error
            models.append(format_class(name).options)
    return Union[tuple(models)]  # noqa: UP007  # the types are known only now
