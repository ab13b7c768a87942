"""The bound of a view over state and tail: raw facts that landed before it are in the state.

A view cannot look up which files its state has read, but a landing time it can compare. So the bound is the time of the raw
commit that the state covers, less an *overlap*: the longest time from a fact's landing time to its commit, plus the difference
between landers' clocks. A fact that takes longer is missed by the view until the state has it, and `missed` finds it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_views.engines.base import FollowedState
from cdc_views.plan.names import LANDED
from cdc_views.plan.parts import Source
from cdc_views.plan.state_and_tail import StateAndTail
from cdc_views.rules.instants import micros
from cdc_views.state.state_table import checked, open_state
from cdc_views.state.tail import committed_at, landings, tail_of
from cdc_views.storage.places import arrow_source, place_of
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog


@dataclass(frozen=True, slots=True)
class Missed:
    """Facts that landed before a bound and were committed after it was taken.

    `landed` is the first landing time; from `committed` on (None: unknown) the view lacked facts. Both are µs since the epoch.
    """

    version: int
    landed: int
    committed: int | None


def followed(raw: RawTable, location: str, *, overlap: int, forgets: bool) -> FollowedState | None:
    """Return the state as a view follows it; None if only raw can answer. `overlap` is in seconds; `forgets`: the project file
    has a lateness. Raises `RawMismatchError` if the state is not of this raw table, `StateChangedError` if somebody changed it.
    """
    table = TableLog.open(raw.location)
    state = checked(open_state(location, raw.relation, raw=table), table)
    if state is None or state.raw_version is None or state.is_earlier or state.is_former:
        return None
    # Delta shows only columns, and fields of structs, that its schema has
    if tail_of(table, after=state.raw_version).rebuild or not state.has_layout:
        return None
    committed = committed_at(table, state.raw_version)
    since = None if committed is None else committed * 1_000 - overlap * 1_000_000
    reads = StateAndTail(since, overlap, forgets=forgets or bool(state.of(Source.PURGED)))
    return FollowedState(location, state.raw_version, reads)


def missed(raw: RawTable, of: FollowedState, *, through: int) -> Missed | None:
    """Return the first commit of facts, up to version `through`, that a view over `of` missed; None if there is none. Reads the
    footers of files whose landing times are not in Delta's log.
    """
    if of.reads.since is None:
        return None
    for landing in landings(TableLog.open(raw.location), after=of.raw_version, through=through):
        landed = min((at for file in landing.files for at in _first_landed(raw.location, file)), default=of.reads.since)
        if landed < of.reads.since:
            return Missed(landing.version, landed, None if landing.committed is None else landing.committed * 1_000)
    return None


def _first_landed(location: str, file: Mapping[str, Any]) -> Iterator[int]:
    """Yield lower bounds of a file's landing times; nothing if they cannot be known any more."""
    noted = json.loads(file.get("stats") or "{}").get("minValues", {}).get(LANDED)
    if noted is not None:
        yield micros(datetime.fromisoformat(noted.replace("Z", "+00:00")))
        return
    try:
        footer = pq.read_metadata(arrow_source(place_of(location) / unquote(file["path"])))
    except (OSError, pa.ArrowException):
        return  # the file was replaced meanwhile
    leaves = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    for number in range(footer.num_row_groups):
        times = footer.row_group(number).column(leaves[LANDED]).statistics
        if times is not None and times.has_min_max:
            yield micros(times.min)
