"""A serving table as a Delta table: what it holds, of what, and evaluated when.

As with a state, every commit records a mark under one transaction id, so that a commit is a compare-and-swap. That id is
named after the state: rows of another state, or of an earlier one, tell nothing about how far these reach. What else the
next run must know is a note in the commit's metadata.
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

from cdc_views.engines.duckdb.serving import NOTE
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
"""Of serving tables; another one is written anew."""
OURS = "cdc-views:serving:"
"""How the transaction ids of our commits begin."""
_MARK = "cdc-views serving table"
_BOUNDS = {"delta.dataSkippingStatsColumns": CHANGES_AT}
"""What Delta's log keeps the least and greatest of, a file: when rows change. Keys are all over each bucket, and a text is
kept as long as it is; at dates beyond the year 262143 deltalake fails."""
_LAST_COMMITS = 50
"""How far back to look for a commit of ours: those in between only keep the table's files in order."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a commit of a serving table says of itself.

    Attributes:
        clock: Epoch seconds that its rows were evaluated at (rule C4).
        setting: Digest of whatever decides how a fact shows, but the facts and the clock.
        state: Delta's id of the state that it was computed from.
        digits: How many digits of the partition key's digest its buckets have.
    """

    clock: int
    setting: str
    state: str
    digits: int

    def text(self) -> str:
        """As it stands in the commit."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class ServingTable:
    """A serving table at one version.

    `mark` is how far it reaches into raw, None where it holds nothing of this state; `note` is the newest, None where
    there is none to be found; `soonest` is the least `_changes_at` (None: never) of each file, with its bucket.
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
        """Return the buckets that hold a row which expiry has changed until `now`."""
        return {part for part, at in self.soonest if at is not None and at <= now}


def transaction_name(state_id: str) -> str:
    """Return the transaction id of serving tables of the state whose Delta id is `state_id`."""
    return f"{OURS}of:{state_id}"


def setting_of(relation: Relation) -> str:
    """Return a digest of the schema, its drop times, and the types that columns show in."""
    casts = sorted((name, kind.sql()) for name, kind in casts_of(relation).items())
    told = (LAYOUT_VERSION, relation.schema, relation.order, casts, str(serving_schema(relation)))
    return sha256(repr(told).encode()).hexdigest()


def create_serving(location: str, relation: Relation) -> None:
    """Create an empty serving table where there is none; raises `UsageError` where something else is."""
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
    """Return the serving table at its newest version; raises `UsageError` where it is another table's, or none of ours."""
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
    """The notes of the last commits with their versions, the newest first."""
    for commit in table.history(_LAST_COMMITS):
        text = commit.get(NOTE) or commit.get("userMetadata")
        if text:
            yield int(commit["version"]), text


def noted_at(location: str) -> int:
    """Return the version of the newest note, which the log must keep; 0 where there is none."""
    return next((version for version, _ in _notes(open_delta(location))), 0)


def _soonest(location: str, action: dict[str, Any]) -> int | None:
    """The least `_changes_at` of a file, by Delta's statistics or by the file's own."""
    least, nulls = action.get(f"min.{CHANGES_AT}"), action.get(f"null_count.{CHANGES_AT}")
    if least is not None:
        return int(least)
    if nulls is not None and nulls == action["num_records"]:
        return None
    return _soonest_in(f"{location.rstrip('/')}/{unquote(action['path'])}")


def _soonest_in(path: str) -> int | None:
    values = pq.read_table(path, columns=[CHANGES_AT], partitioning=None).column(CHANGES_AT)
    return min((value for value in values.to_pylist() if value is not None), default=None)
