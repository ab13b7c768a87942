"""What a project file needs to know of engines and raw formats: their names, and which keys are theirs alone.

Both are plug-ins (`cdc_views.model.plugins`); an engine is loaded where a project file names it.
"""

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
    """The part of an engine's plug-in that a project file is checked by; `cdc_views.engines.plugin` has the whole."""

    options: type[ConfigPart] | None
    """What may stand under a key of the engine's name; None: there is no such key."""

    def check_warehouse(self, warehouse: str) -> None:
        """Raise `ValueError` where `warehouse:` is no place that the engine can use."""


def project_engine(name: str) -> ProjectEngine:
    """Return the engine of that name, which is installed."""
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
"""The name of an engine that is installed."""

FormatName = Annotated[
    str,
    AfterValidator(partial(_check_name, group=PluginGroup.FORMAT)),
    Field(strict=True, json_schema_extra=partial(_list_names, group=PluginGroup.FORMAT)),
]
"""The name of a raw format that is installed."""


def any_format_options() -> Any:
    """Return the type of what any installed format takes as options; a format that cannot be loaded is left out."""
    models: list[Any] = [None]
    for name in plugin_names(PluginGroup.FORMAT):
        with suppress(UnsupportedError):  # whoever names that format reads why
            models.append(format_class(name).options)
    return Union[tuple(models)]  # noqa: UP007  # of types that are known only now
