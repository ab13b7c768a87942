"""The installed dialects; packages add them by entry points."""

from __future__ import annotations

from cdc_views.errors import UnsupportedError, choose_one
from cdc_views.model.plugins import PluginGroup, load_plugin, plugin_names
from cdc_views.sql.dialects.base import Dialect


def dialect_names() -> tuple[str, ...]:
    """Return the names of all installed dialects."""
    return plugin_names(PluginGroup.DIALECT)


def dialect_class(name: str) -> type[Dialect]:
    """Return the class of the dialect called `name`; raises `UnsupportedError` with a suggestion."""
    known = dialect_names()
    if name not in known:
        raise UnsupportedError(f"there is no dialect {name!r}", remedy=choose_one(name, known))
    found: type[Dialect] = load_plugin(PluginGroup.DIALECT, name)
    return found


def dialect(name: str) -> Dialect:
    """Return the dialect called `name`, for one plan; raises like `dialect_class`."""
    return dialect_class(name)()


__all__ = ["Dialect", "dialect", "dialect_class", "dialect_names"]
