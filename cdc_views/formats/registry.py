"""Raw formats by the name that project files and the command line use; packages add formats by entry points."""

from __future__ import annotations

from functools import cache

from cdc_views.errors import ConfigError, choose_one
from cdc_views.formats.base import FormatOptions, RawFormat
from cdc_views.model.plugins import PluginGroup, load_plugin, plugin_names


def format_names() -> tuple[str, ...]:
    """Return the names of all installed raw formats.

    >>> {"cassandra-mutation", "debezium", "debezium-cassandra", "key-value"} <= set(format_names())
    True
    """
    return plugin_names(PluginGroup.FORMAT)


def raw_format(name: str, options: FormatOptions | None = None) -> RawFormat:
    """Return the format called `name`; `options` come from `raw: {options: …}` of the project file, None without any.

    Raises `ConfigError` if there is no such format, or if it does not take these options.

    >>> raw_format("debezium").order
    <WriteOrder.LOG_POSITION: 'log_position'>
    """
    if options is None:
        return _plain(name)
    found = format_class(name)
    if found.options is None or not isinstance(options, found.options):
        raise ConfigError(f"raw format {name} takes no options of {type(options).__name__}")
    return found.configured(options)


def format_class(name: str) -> type[RawFormat]:
    """Return the class of the format called `name`; raises `ConfigError` with a suggestion for an unknown name."""
    known = format_names()
    if name not in known:
        raise ConfigError(f"there is no raw format {name!r}; {choose_one(name, known)}")
    found: type[RawFormat] = load_plugin(PluginGroup.FORMAT, name)
    return found


@cache
def _plain(name: str) -> RawFormat:
    return format_class(name)()
