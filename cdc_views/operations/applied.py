"""What was applied last: the SQL of a table's view, and the state that it follows, in files of the warehouse."""

from __future__ import annotations

import json

from cdc_views.engines.base import FollowedState
from cdc_views.operations.context import TableContext
from cdc_views.plan.state_and_tail import StateAndTail
from cdc_views.storage.places import Place, write_whole


def applied_file(table: TableContext) -> Place:
    """Return the file of the SQL; it exists once the view was applied."""
    return table.project.warehouse / "_cdc_views/applied" / f"{table.config.slug}.sql"


def note_applied(table: TableContext, sql: str) -> None:
    """Record the SQL of a view that was just applied; empty: it waits for the first landing."""
    file = applied_file(table)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, sql)


def note_followed(table: TableContext, followed: FollowedState | None) -> None:
    """Record the state that a view follows that was just applied; None: it follows none.

    A run that is killed before leaves the record of an earlier view, whose bound is no later: the next check looks at more.
    """
    file = _bound_file(table)
    if followed is None:
        file.unlink(missing_ok=True)
        return
    reads = followed.reads
    told = {"state": followed.location, "raw_version": followed.raw_version, "since": reads.since, "forgets": reads.forgets}
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps({**told, "overlap": reads.overlap}))


def followed_by(table: TableContext) -> FollowedState | None:
    """Return the state that the applied view follows; None without one."""
    file = _bound_file(table)
    if not file.exists():
        return None
    told = json.loads(file.read_text("utf-8"))
    reads = StateAndTail(told["since"], told["overlap"], forgets=told["forgets"])
    return FollowedState(told["state"], told["raw_version"], reads)


def _bound_file(table: TableContext) -> Place:
    return applied_file(table).with_suffix(".json")
