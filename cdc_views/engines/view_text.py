"""The statement of a view over Delta tables that are read by their names, for `apply` and for `generate` alike."""

from __future__ import annotations

from collections.abc import Callable

from cdc_views.engines.base import ViewDefinition
from cdc_views.sql import StateSql, ViewSql, generate


def view_statement(view: ViewDefinition, *, dialect_name: str, table_sql: Callable[[str], str]) -> str:
    """Return the CREATE VIEW statement; `table_sql` returns the FROM clause of the table at a location."""
    state, note = None, ""
    if view.followed is not None:
        state = StateSql(table_sql(view.followed.location), view.followed.reads)
        note = "reads the state, and what landed since it was last brought up to date; `cdc-views materialize` keeps both short"
    return generate(
        view.raw.relation,
        dialect_name=dialect_name,
        strategy=view.strategy.value,
        view=ViewSql(view.schema, view.name),
        table=table_sql(view.raw.location),
        note=note,
        state=state,
    )
