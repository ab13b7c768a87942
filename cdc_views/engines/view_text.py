"""The statement of a view over Delta tables that are read by their names, for `apply` and for `generate` alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cdc_views.engines.base import ViewDefinition
from cdc_views.sql import StateSql, ViewSql, generate
from cdc_views.storage.places import place_of

EVENTS_NOTE = "reads the events themselves; cdc-views copies nothing"


def view_query(view: ViewDefinition, *, dialect_name: str, table_sql: Callable[[str], str]) -> str:
    """Return the query of a view's statement; see `view_statement`."""
    return view_statement(replace(view, name=""), dialect_name=dialect_name, table_sql=table_sql)


def view_statement(view: ViewDefinition, *, dialect_name: str, table_sql: Callable[[str], str]) -> str:
    """Return the CREATE VIEW statement; `table_sql` returns the FROM clause of the table at a location."""
    state, events = None, view.events
    table = table_sql(view.raw.location if events is None else events.location)
    note = "" if events is None else EVENTS_NOTE
    # a bare name: no engine of the project knows where the table is
    is_stand_in = events is None and view.followed is None and table == place_of(view.raw.location).name
    if view.followed is not None:
        state = StateSql(table_sql(view.followed.location), view.followed.reads)
        note = "reads the state, and what landed since it was last brought up to date: `cdc-views materialize` keeps that little"
    return generate(
        view.raw.relation,
        dialect_name=dialect_name,
        strategy=view.strategy.value,
        view=ViewSql(view.schema, view.name, view.catalog, view.owner),
        table=table,
        stand_in=table if is_stand_in else "",
        note=note,
        state=state,
        events=None if events is None else events.plan,
        style=view.style,
    )
