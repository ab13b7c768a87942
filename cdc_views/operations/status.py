"""The status of local tables, from logs alone: what landed, what the state covers, and what is wrong between the two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone

from cdc_views.errors import UsageError
from cdc_views.landing.quarantine import waiting
from cdc_views.landing.raw_table import check_log, is_delta
from cdc_views.operations.catalogs import names_of
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import adapted
from cdc_views.operations.verifying.record import record_of
from cdc_views.state.identity import MismatchError
from cdc_views.state.state_table import checked, open_state
from cdc_views.state.tail import committed_at, last_landed, rows_of, tail_of
from cdc_views.storage.table_log import TableLog


@dataclass(frozen=True, slots=True)
class TableStatus:
    """The status of one table; None: missing or unknown.

    `changed_at` is the time of the last commit, `landed_at` of the last that landed facts, ISO 8601 in UTC. `quarantined` events
    could not land. `state_version` is the raw version that the state covers; `unmerged` are later facts, which each read merges.
    `problem` states why commands refuse to read the table; mostly empty. `registered` are the names in the catalog of
    `spark: {catalog: …}`; None without one. `verified_through` is the newest proof of `verify`, in one line; None before its
    first run.
    """

    table: str
    raw: str
    raw_version: int | None = None
    raw_facts: int | None = None
    changed_at: str | None = None
    quarantined: int = 0
    state: str | None = None
    state_version: int | None = None
    unmerged: int | None = None
    problem: str = ""
    registered: str | None = None
    verified_through: str | None = None
    landed_at: str | None = None


def status_of(table: TableContext) -> TableStatus:
    """Return the status of a table; raises `EngineError` for an unreadable log."""
    names, proven = names_of(table), record_of(table).verified_through
    return replace(_status_of(table), registered=None if names is None else ", ".join(names), verified_through=proven)


def _status_of(table: TableContext) -> TableStatus:
    state_location, unfit = table.state_location if is_delta(table.state_location) else None, ""
    location = table.raw.location
    try:
        adapted(table)
        raw = TableLog.find(location)
        if raw is None:
            return TableStatus(table.name, table.location)
        try:
            check_log(table.raw, raw, format_name=table.format.name)
        except UsageError as error:  # the schema file or the format changed
            unfit = str(error)
        facts, changed, landed = rows_of(raw), committed_at(raw, raw.version), last_landed(raw)
        state = checked(open_state(table.state_location, table.relation, raw=raw), raw)
        covers = None if state is None else state.raw_version
        tail = None if covers is None else tail_of(raw, after=covers)
    except MismatchError as error:
        return TableStatus(table.name, table.location, state=state_location, problem=str(error))
    return TableStatus(
        table.name,
        table.location,
        raw.version,
        facts,
        _instant(changed),
        waiting(table.raw)[0],
        state_location,
        covers,
        facts if tail is None or tail.rebuild else tail.rows,
        problem=unfit,
        landed_at=_instant(landed),
    )


def _instant(millis: int | None) -> str | None:
    return None if millis is None else datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat(timespec="seconds")
