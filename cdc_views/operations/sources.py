"""Where a read or a view finds a table's facts: in its state and what landed since, or in raw alone."""

from __future__ import annotations

from dataclasses import replace

from cdc_views.engines.base import FollowedState, Read, Sources
from cdc_views.engines.warehouses import StateDefinition
from cdc_views.landing import exists
from cdc_views.operations import known_raw
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import check_raw_is_whole
from cdc_views.operations.lateness import lateness_seconds, sees_purged
from cdc_views.rules.instants import span_seconds
from cdc_views.state import sources_of
from cdc_views.state.bound import followed


def state_definition(table: TableContext) -> StateDefinition:
    """Return the definition of the state in a remote warehouse."""
    lateness = table.config.materialize.lateness
    seconds = None if lateness is None else lateness_seconds(lateness)
    return StateDefinition(table.config.slug, table.raw, serving=table.config.serving_name or "", lateness=seconds)


def sources_for(table: TableContext, read: Read, *, as_of: int | None = None) -> Sources | None:
    """Return the state and the tail for a read; None if only raw can answer.

    A state cannot undo later landings or writes, because it does not keep the losers (rule M1). Nor does it keep purged cells
    (rule M2), which a read with a clock `as_of` (None: now) before their expiry still shows.
    """
    is_as_of_earlier = read.landed_as_of is not None or read.written_as_of is not None
    if table.project.is_remote:
        return None if is_as_of_earlier else remote_sources(table, read, as_of=as_of)
    is_there = exists(table.raw)
    if not is_there:
        known_raw.check_known(table)
    if is_as_of_earlier or not is_there:
        check_raw_is_whole(table, what="what had landed or been written by an earlier instant")
        return None
    sources = sources_of(read.raw, table.state_location, where=read.where)
    if sources is None or (as_of is not None and sees_purged(sources, as_of)):
        check_raw_is_whole(table, what="what raw shows without a state")
        return None
    return sources


def remote_sources(table: TableContext, read: Read, *, as_of: int | None) -> Sources | None:
    """Return state and tail as one short raw table; None as in `sources_for`, or while the state lacks a column of the schema."""
    with table.project.remote() as opened:
        standing = opened.state(table.config.slug, read.raw)
    if standing is None or not standing.is_complete:
        return None
    if as_of is not None and standing.horizon is not None and as_of <= standing.horizon:
        return None
    facts = table.project.warehouse_plugin.raw_location(table.project.config, standing.facts)
    return Sources(replace(read.raw, location=facts), 0)


def followed_state(table: TableContext) -> FollowedState | None:
    """Return the state that a view of the table follows; None if the view must be of raw alone. Raises as `sources_for`.

    A table that somebody else lands has such a view of raw alone: its owner may take rows out of it, and a state has them until
    its next run.
    """
    if not exists(table.raw):
        known_raw.check_known(table)
        return None
    found = None
    if not table.is_external:
        config = table.config.materialize
        overlap = span_seconds(config.overlap, option="overlap", example="1h", digits=9)
        found = followed(table.raw, table.state_location, overlap=overlap, forgets=config.lateness is not None)
    if found is None:
        check_raw_is_whole(table, what="a view of raw alone")
    return found
