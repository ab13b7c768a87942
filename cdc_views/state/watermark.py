"""Moving a state's watermark past versions of raw that added nothing, so that their log entries may go."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from cdc_views.landing.delta import append, delta_errors
from cdc_views.state.identity import mark_after
from cdc_views.state.state_table import TRANSACTION, checked, open_state
from cdc_views.state.tail import tail_of
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.relation import RawTable


def cover(raw: RawTable, location: str, *, version: int) -> None:
    """Record that a state, if there is one, covers the raw table up to `version`.

    Raises `ConflictError` where that is not so: bring it up to date first.
    """
    with delta_errors(raw.location):
        newest, table = DeltaTable(raw.location), DeltaTable(raw.location, version=version)
    state = checked(open_state(location, raw.relation, raw=newest), newest)
    if state is None or state.raw_version is None or state.raw_version >= version:
        return
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild or tail.files:
        raise ConflictError(f"{location}: events landed meanwhile; run the command again")
    with delta_errors(location):
        target = DeltaTable(location, version=state.version)
    nothing = pa.schema(target.schema().to_arrow()).empty_table()
    append(target, nothing, transactions={TRANSACTION: mark_after(state.mark, table).number})
