"""A serving table as a Delta table, with the state and the instant that its rows show.

As with a state, every commit records a mark under one transaction id, so a commit is a compare-and-swap. The id names the
state, because a mark of another state says nothing about this one. A note in the commit's metadata has everything else
that the next run needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from cdc_views.engines.duckdb.state import NOTE
from cdc_views.engines.serving import serving_schema
from cdc_views.errors import UsageError
from cdc_views.landing.delta import delta_errors, open_delta, recorded, with_settings
from cdc_views.landing.raw_table import is_delta
from cdc_views.plan.compact import PART
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.state.identity import Mark
from cdc_views.storage.relation import Relation
from cdc_views.storage.shown_relation import casts_of

LAYOUT_VERSION = 2
"""The layout of serving tables; a table of another layout is rewritten."""
OURS = "cdc-views:serving:"
"""The prefix of our transaction ids."""
_MARK = "cdc-views serving table"
_BOUNDS = {"delta.dataSkippingStatsColumns": CHANGES_AT}
"""The only column with statistics in Delta's log. Keys span each bucket, texts would be kept in full, and deltalake fails at
dates beyond the year 262143."""
_LAST_COMMITS = 50
"""The number of commits to search for our newest. Commits after it only compact files."""


@dataclass(frozen=True, slots=True)
class Note:
    """The note in a commit of a serving table.

    Attributes:
        clock: The epoch second that its rows show (rule C4).
        setting: A digest of everything else that decides how a fact shows (`setting_of`).
        state: The Delta id of its state.
        digits: The number of digits of the partition key's digest in a bucket's name.
    """

    clock: int
    setting: str
    state: str
    digits: int

    def text(self) -> str:
        """Its text in the commit."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class ServingTable:
    """A serving table at one version.

    `mark` is the raw commit that it covers, None if it has no rows of this state. `note` is its newest note, None if none
    was found. `soonest` has (bucket, least `_changes_at`) of each file; None: no row of it ever changes.
    """

    location: str
    version: int
    mark: Mark | None
    note: Note | None
    rows: int
    soonest: tuple[tuple[str, int | None], ...]

    @property
    def raw_version(self) -> int | None:
        """The version of the raw table that its rows show."""
        return None if self.mark is None else self.mark.version

    def expired(self, now: int) -> set[str]:
        """Return the buckets with a row that expiry changed by `now` (rule C4)."""
        return {part for part, at in self.soonest if at is not None and at <= now}


def transaction_name(state_id: str) -> str:
    """Return the transaction id of serving tables of the state whose Delta id is `state_id`."""
    return f"{OURS}of:{state_id}"


def setting_of(relation: Relation) -> str:
    """Return a digest of the schema, its drop times, and the types that views show."""
    casts = sorted((name, kind.sql()) for name, kind in casts_of(relation).items())
    setting = (LAYOUT_VERSION, relation.schema, relation.order, casts, str(serving_schema(relation)))
    return sha256(repr(setting).encode()).hexdigest()


def create_serving(location: str, relation: Relation) -> None:
    """Create an empty serving table if there is none; raises `UsageError` if something else is there."""
    place = Path(location)
    if not place.is_file() and is_delta(location):
        with_settings(open_delta(location), _BOUNDS)
        return
    if place.is_file() or (place.is_dir() and any(place.iterdir()) and not (place / "_delta_log").is_dir()):
        raise UsageError(f"{location}: is no serving table of cdc-views, and one is to be written there; move it away")
    with delta_errors(location):
        DeltaTable.create(
            location,
            serving_schema(relation),
            mode="ignore",
            partition_by=[PART],
            name=relation.schema.full_name,
            description=f"{_MARK}; layout {LAYOUT_VERSION}",
            configuration=_BOUNDS,
        )


def open_serving(location: str, relation: Relation, *, state_id: str) -> ServingTable:
    """Return the serving table at its newest version; raises `UsageError` if it is another table's, or not ours."""
    with delta_errors(location):
        table = DeltaTable(location)
        metadata = table.metadata()
        if not str(metadata.description or "").startswith(f"{_MARK};"):
            raise UsageError(f"{location}: is a Delta table, but no serving table of cdc-views; move it away")
        if metadata.name != relation.schema.full_name:
            raise UsageError(
                f"{location}: is the serving table of {metadata.name}, not of {relation.schema.full_name}; give each table its "
                "own `materialize: {serving: {name: …}}`"
            )
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        soonest = tuple((str(action[f"partition.{PART}"]), _soonest(location, action)) for action in actions)
        rows = sum(int(action["num_records"] or 0) for action in actions)
        number = recorded(table, transaction_name(state_id))
        mark = None if number is None else Mark.of(number)
        return ServingTable(location, table.version(), mark, _newest_note(table), rows, soonest)


def _newest_note(table: DeltaTable) -> Note | None:
    text = next((text for _, text in _notes(table)), "null")
    try:
        return Note(**json.loads(text))
    except (ValueError, TypeError):
        return None


def _notes(table: DeltaTable) -> Iterator[tuple[int, str]]:
    """(version, note) of the last commits, newest first."""
    for commit in table.history(_LAST_COMMITS):
        text = commit.get(NOTE) or commit.get("userMetadata")
        if text:
            yield int(commit["version"]), text


def noted_at(location: str) -> int:
    """Return the version of the newest note, which the log must keep; 0 without one."""
    return next((version for version, _ in _notes(open_delta(location))), 0)


def _soonest(location: str, action: dict[str, Any]) -> int | None:
    """The least `_changes_at` of a file, from Delta's statistics or from the file."""
    least, nulls = action.get(f"min.{CHANGES_AT}"), action.get(f"null_count.{CHANGES_AT}")
    if least is not None:
        return int(least)
    if nulls is not None and nulls == action["num_records"]:
        return None
    return _soonest_in(f"{location.rstrip('/')}/{unquote(action['path'])}")


def _soonest_in(path: str) -> int | None:
    values = pq.read_table(path, columns=[CHANGES_AT], partitioning=None).column(CHANGES_AT)
    return min((value for value in values.to_pylist() if value is not None), default=None)
