"""Moving a state's watermark past versions of raw that added nothing, so that their log entries may go."""

from __future__ import annotations

from cdc_views.landing.delta import open_delta, record
from cdc_views.state.identity import mark_after
from cdc_views.state.state_table import TRANSACTION, checked, open_state
from cdc_views.state.tail import tail_of
from cdc_views.storage.conflicts import ConflictError
from cdc_views.storage.relation import RawTable


def cover(raw: RawTable, location: str, *, version: int) -> None:
    """Record that a state, if there is one, covers the raw table up to `version`.

    Raises `ConflictError` where that is not so: bring it up to date first.
    """
    newest, table = open_delta(raw.location), open_delta(raw.location, version=version)
    state = checked(open_state(location, raw.relation, raw=newest), newest)
    if state is None or state.raw_version is None or state.raw_version >= version:
        return
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild or tail.files:
        raise ConflictError(f"{location}: events landed meanwhile; run the command again")
    record(open_delta(location, version=state.version), {TRANSACTION: mark_after(state.mark, table).number})
