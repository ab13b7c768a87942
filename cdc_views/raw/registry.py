"""Raw formats by the name that project files and the command line use."""

from __future__ import annotations

from cdc_views.errors import ConfigError, did_you_mean
from cdc_views.raw.base import RawFormat
from cdc_views.raw.cassandra_mutation import CassandraMutation
from cdc_views.raw.debezium import Debezium
from cdc_views.raw.debezium_cassandra import DebeziumCassandra
from cdc_views.raw.key_value import KeyValue

FORMATS: dict[str, RawFormat] = {
    found.name: found for found in (CassandraMutation(), DebeziumCassandra(), Debezium(), KeyValue())
}
"""Every raw format, in the order they are listed to users."""


def raw_format(name: str) -> RawFormat:
    """Return the format called `name`; raises `ConfigError` with a suggestion for any other name."""
    if name in FORMATS:
        return FORMATS[name]
    raise ConfigError(f"there is no raw format {name!r}{did_you_mean(name, FORMATS)}")
