"""What dbt calls a table: names of models and macros may only hold letters, digits and `_`."""

from __future__ import annotations

from collections.abc import Iterable

from cdc_views.errors import ConfigError
from cdc_views.naming import physical_name


def dbt_name(table: str) -> str:
    """Return the name of a table's model: its parts joined with two underscores.

    >>> dbt_name("shop.orders"), dbt_name("shop.OrderItems")
    ('shop__orders', 'shop__x__4frder_49tems')
    """
    return "__".join(physical_name(part) for part in table.split("."))


def state_name(table: str) -> str:
    """Return the name of the model that keeps a table's state."""
    return f"{dbt_name(table)}__state"


def raw_variable(table: str) -> str:
    """Return the name of the DuckDB variable that lists the files of a raw table."""
    return f"cdc_views_raw_{dbt_name(table)}"


def check_names_differ(tables: Iterable[str]) -> None:
    """Raise `ConfigError` where two tables would have one model."""
    seen: dict[str, str] = {}
    for table in tables:
        for name in (dbt_name(table), state_name(table)):
            other = seen.setdefault(name, table)
            if other != table:
                raise ConfigError(f"{other} and {table} would both have the dbt model {name}; export one of them with --select")
