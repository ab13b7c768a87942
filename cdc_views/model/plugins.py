"""Plug-ins: engines, dialects, raw formats and producers, which packages add by entry points. Ours are plug-ins too.

    [project.entry-points."cdc_views.dialects"]
    acme = "acme_sql:Acme"

A plug-in is loaded when its name is used, so a broken one does not affect the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from cdc_views.errors import ConfigError, UnsupportedError
from cdc_views.model.extras import missing_extra


class PluginGroup(str, Enum):
    """A kind of plug-in; the value is the group of its entry points."""

    ENGINE = "cdc_views.engines"
    DIALECT = "cdc_views.dialects"
    FORMAT = "cdc_views.formats"
    PRODUCER = "cdc_views.producers"


def plugin_names(group: PluginGroup) -> tuple[str, ...]:
    """Return the names of all installed plug-ins of a group, in alphabetical order."""
    return tuple(sorted(_entries(group)))


@cache
def load_plugin(group: PluginGroup, name: str) -> Any:  # noqa: ANN401  # each group's registry knows the type
    """Return the object that the entry point of that name refers to.

    Raises:
        KeyError: `plugin_names` does not have the name. The caller should check that first.
        MissingExtraError: A package from one of our extras is not installed.
        UnsupportedError: The plug-in cannot be imported for another reason.
    """
    entry, what = _entries(group)[name], f"{group.name.lower()} {name}"
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ImportError) and (missing := missing_extra(error, what=what)) is not None:
            raise missing from error
        raise UnsupportedError(
            f"{what} cannot be loaded from {entry.value}: {error}", remedy="install its package again, or remove it"
        ) from error


@cache
def _entries(group: PluginGroup) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name; refuse a name that two packages offer, since either might win."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group.value):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise ConfigError(
                f"{group.name.lower()} {entry.name!r} is offered twice, as {other.value} and as {entry.value}; "
                "remove one of the two packages"
            )
    return found
