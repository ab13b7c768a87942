"""What the API does about state: bring it up to date, and find what a read may take from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_views.errors import UsageError

if TYPE_CHECKING:
    from cdc_views.engines.base import Sources
    from cdc_views.materialize import Materialization
    from cdc_views.relation import RawTable
    from cdc_views.table import Table


def materialize_table(table: Table, *, full: bool, engine: str | None) -> Materialization:
    """See `Table.materialize`."""
    from cdc_views.landing import exists, open_raw
    from cdc_views.materialize import materialize
    from cdc_views.raw_places import NOTHING_LANDED, state_location

    table.adapt()
    if not exists(table.raw):
        raise UsageError(NOTHING_LANDED.format(name=table.name))
    open_raw(table.raw, format_name=table.format.name)
    with table.project.engine(engine) as opened:
        return materialize(opened, table.raw, state_location(table), full=full)


def sources_for(table: Table, raw: RawTable, options: Mapping[str, Any]) -> Sources | None:
    """Return state and the raw events since, None where only raw can answer.

    What landed or was written later cannot be taken out of a state: what it had beaten is gone from there (rule M1).
    """
    from cdc_views.landing import exists
    from cdc_views.materialize import sources_of
    from cdc_views.raw_places import state_location
    from cdc_views.retention import check_raw_is_whole

    if options["landed_as_of"] is not None or options["written_as_of"] is not None or not exists(table.raw):
        check_raw_is_whole(table, what="what had landed or been written by an earlier instant")
        return None
    sources = sources_of(raw, state_location(table), where=options["where"])
    if sources is None:
        check_raw_is_whole(table, what="what raw shows without a state")
    return sources


def view_sources(table: Table) -> Sources | None:
    """Return state and the raw events since for a view that names files; None without state."""
    return sources_for(table, table.raw, {"landed_as_of": None, "written_as_of": None, "where": None})
