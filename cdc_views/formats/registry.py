"""Raw formats by the name that project files and the command line use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_views.errors import ConfigError, did_you_mean
from cdc_views.formats.base import RawFormat
from cdc_views.formats.cassandra_mutation import CassandraMutation
from cdc_views.formats.connect.hints import Binary, Decimals, Unit
from cdc_views.formats.debezium.format import Debezium
from cdc_views.formats.debezium_cassandra.format import DebeziumCassandra
from cdc_views.formats.key_value.format import KeyValue

FORMATS: dict[str, RawFormat] = {
    found.name: found for found in (CassandraMutation(), DebeziumCassandra(), Debezium(), KeyValue())
}
"""Every raw format, in the order they are listed to users."""


def raw_format(name: str, options: Mapping[str, Any] | None = None) -> RawFormat:
    """Return the format called `name`.

    Args:
        name: A key of `FORMATS`.
        options: What the project file says under `raw: {options: …}`: for `debezium` any of `scales`, `units`,
            `binary` and `decimals`, as JSON values.

    Raises:
        ConfigError: There is no such format, or it takes no options.
    """
    if name not in FORMATS:
        raise ConfigError(f"there is no raw format {name!r}{did_you_mean(name, FORMATS)}")
    if not options:
        return FORMATS[name]
    if name != Debezium.name:
        raise ConfigError(f"raw format {name} takes no options; {Debezium.name} does")
    return Debezium(
        scales=options.get("scales"),
        units={column: Unit[unit.upper()] for column, unit in options.get("units", {}).items()},
        binary=Binary(options["binary"]) if "binary" in options else None,
        decimals=Decimals(options["decimals"]) if "decimals" in options else None,
    )
