"""What dbt calls a table: names of models and macros may only hold letters, digits and `_`."""

from __future__ import annotations

from collections.abc import Iterable

from cdc_views.errors import ConfigError
from cdc_views.operations.raw_files import plain_name


def dbt_name(table: str) -> str:
    """Return the name of a table's model."""
    return plain_name(table)


def state_name(table: str) -> str:
    """Return the name of the model that keeps a table's state."""
    return f"{dbt_name(table)}__state"


def check_names_differ(tables: Iterable[str]) -> None:
    """Raise `ConfigError` where two tables would have one model."""
    seen: dict[str, str] = {}
    for table in tables:
        for name in (dbt_name(table), state_name(table)):
            other = seen.setdefault(name, table)
            if other != table:
                raise ConfigError(f"{other} and {table} would both have the dbt model {name}; export one of them with --select")
