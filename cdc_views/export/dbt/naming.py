"""What dbt calls a table's models and macros: `plain_name`, as names may only hold letters, digits and `_`, and what follows."""

from __future__ import annotations

from collections.abc import Iterable

from cdc_views.errors import ConfigError
from cdc_views.operations.raw_files import plain_name

SOURCE = "cdc_views_raw"
"""The dbt source of raw tables."""


def state_name(table: str) -> str:
    """Return the name of the model that keeps a table's state."""
    return f"{plain_name(table)}__state"


def check_names_differ(tables: Iterable[str]) -> None:
    """Raise `ConfigError` where two tables would have one model."""
    seen: dict[str, str] = {}
    for table in tables:
        for name in (plain_name(table), state_name(table)):
            other = seen.setdefault(name, table)
            if other != table:
                raise ConfigError(f"{other} and {table} would both have the dbt model {name}; export one of them with --select")
