"""Whether a state lacks cells of columns, or of fields of structs, because a run had an older schema file than raw's writer."""

from __future__ import annotations

from cdc_views.errors import EngineError
from cdc_views.state.state_table import StateTable
from cdc_views.state.tail import dropped_through
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog
from cdc_views.storage.widening import has_columns, narrowed

BEHIND = "an earlier run had an older schema file"


def is_behind(raw: RawTable, state: StateTable) -> bool:
    """Whether the state must be built again: raw had, at the version it covers, what it lacks. False where raw lacks facts."""
    if state.has_layout or state.raw_version is None:
        return False
    try:
        then = TableLog.open(raw.location, version=state.raw_version).schema
    except EngineError:  # that version is gone, and may have had what raw has now
        then = TableLog.open(raw.location).schema
    if has_columns(state.log.schema, narrowed(then, raw.relation.arrow_schema())):
        return False
    return not (state.is_sole or dropped_through(raw.location))
