"""Checks that raw still has all events: retention may have dropped old ones (see `operations.retention`)."""

from __future__ import annotations

from datetime import datetime, timezone

from cdc_views.errors import UsageError
from cdc_views.landing.delta import open_delta, recorded
from cdc_views.landing.raw_table import is_delta
from cdc_views.state.state_table import StateTable
from cdc_views.state.tail import DROPPED


def dropped_through(location: str) -> int | None:
    """Return the instant (µs since the epoch) before which events were dropped from a raw table; None if none were."""
    if not is_delta(location):
        return None
    return recorded(open_delta(location), DROPPED) or None


def check_whole(location: str, *, what: str) -> None:
    """Raise `UsageError` if events were dropped from the raw table, which `what` needs."""
    instant = dropped_through(location)
    if instant is None:
        return
    when = datetime.fromtimestamp(instant / 1_000_000, timezone.utc).isoformat(timespec="seconds")
    raise UsageError(
        f"{location}: events that landed before {when} were dropped from raw, so {what} would be wrong: the state has only "
        "what won; restore their archive with `cdc-views maintain --restore-raw DIR`, or ask what state and newer events tell"
    )


def check_not_sole(state: StateTable | None, *, what: str) -> None:
    """Raise `UsageError` if the state has facts that its raw table lacks, which `what` would lose."""
    if state is not None and state.is_sole:
        raise UsageError(
            f"{state.location}: the state holds facts that raw does not have, since it was kept by `rebuild --with-state`, so "
            f"{what} would be wrong; ask what state and newer events tell, or give the state's own facts up with "
            "`cdc-views rebuild --accept`"
        )
