"""Serving tables: a table's rows as plain columns, for people and BI tools, kept up to date from changes.

As with a state, every commit records a mark under one transaction id, so a commit is a compare-and-swap. The id names the state,
because a mark of another state says nothing about this one. A note in the commit's metadata has all else that the next run needs.

A run rewrites only the buckets in which something landed or expired. It does not read the table's rows: it finds the buckets of
new raw events, and in Delta's log the buckets with a row that expired, and computes their rows from the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.buckets import in_buckets
from cdc_views.engines.serving import NOTE, ServingWrite, serving_schema
from cdc_views.errors import UsageError
from cdc_views.landing.delta import delta_errors, has_settings, log_settings, open_delta, with_settings
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import STORED, FileSet, Part, Parts
from cdc_views.plan.serving import CHANGES_AT, touched_buckets
from cdc_views.rules.facts import FactKind
from cdc_views.state import sizes
from cdc_views.state.identity import Mark
from cdc_views.state.run import at_rest
from cdc_views.state.state_table import checked, open_state
from cdc_views.state.tail import tail_of, why_changed
from cdc_views.storage.conflicts import retried
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.delta_tables import created
from cdc_views.storage.places import arrow_source, place_of
from cdc_views.storage.relation import RawTable, Relation
from cdc_views.storage.shown_relation import casts_of
from cdc_views.storage.table_log import TableLog

LAYOUT_VERSION = 2  # a serving table of another layout is rewritten
OURS = "cdc-views:serving:"  # the prefix of our transaction ids
_MARK = "cdc-views serving table"
_MOST_NOTELESS = 50
"""Commits after our newest only compact files."""
_BOUNDS = {"delta.dataSkippingStatsColumns": CHANGES_AT}
"""The only column with statistics: keys span each bucket, texts would be kept in full, and deltalake fails after year 262143."""


@dataclass(frozen=True, slots=True)
class Note:
    """The note in a commit of a serving table."""

    clock: int  # the epoch second that its rows show (rule C4)
    setting: str  # a digest of everything else that decides how a fact shows (`setting_of`)
    state: str
    digits: int  # the number of digits of the partition key's digest in a bucket's name

    def text(self) -> str:
        """Return its text in the commit."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class ServingTable:
    """A serving table at one version. `mark` is the raw commit that it covers, None if it has no rows of this state. `note` is
    its newest note, if any. `soonest` has (bucket, least `_changes_at`) of each file; None: no row of the file ever changes.
    """

    log: TableLog
    mark: Mark | None
    note: Note | None
    rows: int
    soonest: tuple[tuple[str, int | None], ...]

    @property
    def version(self) -> int:
        """The version of its table."""
        return self.log.version

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
    place = place_of(location)
    log = None if place.is_file() else TableLog.find(location)
    if log is not None:
        if not has_settings(log.metadata.configuration, _BOUNDS):
            with_settings(open_delta(location), _BOUNDS)
        return
    if place.is_file() or (place.is_dir() and any(place.iterdir()) and not (place / "_delta_log").is_dir()):
        raise UsageError(f"{location}: is no serving table of cdc-views, and one is to be written there; move it away")
    with delta_errors(location):
        created(
            location,
            serving_schema(relation),
            mode="ignore",
            partition_by=[PART],
            name=relation.schema.full_name,
            description=f"{_MARK}; layout {LAYOUT_VERSION}",
            configuration={**log_settings(checkpoint_every=10), **_BOUNDS},
        )


def open_serving(location: str, relation: Relation, *, state_id: str) -> ServingTable:
    """Return the serving table at its newest version; raises `UsageError` if it is another table's, or not ours."""
    log = TableLog.open(location)
    if not log.metadata.description.startswith(f"{_MARK};"):
        raise UsageError(f"{location}: is a Delta table, but no serving table of cdc-views; move it away")
    if log.metadata.name != relation.schema.full_name:
        raise UsageError(
            f"{location}: is the serving table of {log.metadata.name}, not of {relation.schema.full_name}; give each table its "
            "own `materialize: {serving: {name: …}}`"
        )
    soonest = tuple((str(file.partition.get(PART)), _soonest(log, file)) for file in log.added.values())
    rows = sum(file.told or 0 for file in log.added.values())
    number, note = log.transaction(transaction_name(state_id)), None
    mark = None if number is None else Mark.of(number)
    with suppress(ValueError, TypeError):
        note = Note(**json.loads(next((text for _, text in _notes(log)), "null")))
    return ServingTable(log, mark, note, rows, soonest)


def _notes(log: TableLog) -> Iterator[tuple[int, str]]:
    """Yield (version, note) of the last commits, newest first."""
    for number in range(log.version, max(log.version - _MOST_NOTELESS, -1), -1):
        ((_, actions),) = log.actions([number])
        info: dict[str, Any] = next((action["commitInfo"] for action in actions or () if "commitInfo" in action), {})
        text = info.get(NOTE) or info.get("userMetadata")  # as Spark's commits of earlier versions have it
        if text:
            yield number, text


def noted_at(location: str) -> int:
    """Return the version of the newest note, which the log must keep; 0 without one."""
    return next((version for version, _ in _notes(TableLog.open(location))), 0)


def _soonest(log: TableLog, file: DataFile) -> int | None:
    """Return the least `_changes_at` of a file, from Delta's statistics or from the file."""
    stats = json.loads(file.stats or "{}")
    least, nulls = (stats.get(kind, {}).get(CHANGES_AT) for kind in ("minValues", "nullCount"))
    if least is not None:
        return int(least)
    if nulls is not None and nulls == stats["numRecords"]:
        return None
    with pq.ParquetFile(arrow_source(file.at(log.location))) as parquet:
        found: int | None = pc.min(parquet.read(columns=[CHANGES_AT]).column(CHANGES_AT)).as_py()
    return found


@dataclass(frozen=True, slots=True)
class Served:
    """The result of one call."""

    is_new: bool
    raw_version: int  # the version of raw that the rows show
    clock: int  # the epoch second that the rows written last show
    rows: int
    buckets: int = 0  # how many buckets were written; 0 if the whole table was
    why: str = ""  # why the whole table was written; empty if it was not

    def line(self) -> str:
        """Return one line for people."""
        if not self.is_new:
            return f"serving table is up to date: {self.rows:,} rows"
        what = f"written ({self.why})" if self.why else f"brought up to date in {self.buckets:,} buckets"
        return f"serving table {what}: {self.rows:,} rows"


def serve(engine: Engine, raw: RawTable, state: str, location: str, *, now: int, full: bool = False) -> Served:
    """Make the serving table at `location` show the state's rows at `now` (epoch seconds, rule C4), or at its last clock if that
    is later. `full` rewrites all of it. Safe to run twice, at once, or after a kill. Raises `UsageError` if there is no state or
    something else is at `location`, and `ConflictError` if other runs kept committing first.
    """
    create_serving(location, raw.relation)
    return retried(
        lambda: _attempt(engine, raw, state, location, now=now, full=full),
        what=f"{location}: other runs keep committing first; run the command again",
    )


def _attempt(engine: Engine, raw: RawTable, state_location: str, location: str, *, now: int, full: bool) -> Served:
    table = TableLog.open(raw.location)
    state = checked(open_state(state_location, raw.relation, raw=table), table)
    if state is None or state.mark is None:
        raise UsageError(f"{state_location}: there is no state to serve rows from; run `cdc-views materialize`")
    state_id = state.log.metadata.id
    serving = open_serving(location, raw.relation, state_id=state_id)
    clock, digits = (max(now, serving.note.clock), serving.note.digits) if serving.note else (now, 0)
    note, finest = Note(clock, setting_of(raw.relation), state_id, digits), sizes.SIZES.digits_of_run(state.rows(STORED))
    parts: tuple[str, ...] = ()
    why = "as asked for" if full else _why_all(serving, note, finest=finest)
    if not why:
        parts, why = _due(engine, raw, table, serving, note)
    if not parts and not why:
        assert serving.raw_version is not None
        return Served(is_new=False, raw_version=serving.raw_version, clock=note.clock, rows=serving.rows)
    if why:
        note = replace(note, digits=finest)
    is_again = serving.mark is not None and serving.mark.version >= state.mark.version
    mark = serving.mark.following() if serving.mark and is_again else replace(state.mark, step=0)
    write = ServingWrite(
        of_buckets(at_rest(raw, state), parts),
        note.clock,
        location,
        serving.version,
        note.digits,
        parts,
        (transaction_name(state_id), mark.number),
        note.text(),
    )
    engine.write_serving(write)
    rows = open_serving(location, raw.relation, state_id=state_id).rows
    return Served(is_new=True, raw_version=state.mark.version, clock=note.clock, rows=rows, buckets=len(parts), why=why)


def _why_all(serving: ServingTable, note: Note, *, finest: int) -> str:
    """Return why all of the table must be written; empty if some buckets are enough."""
    if serving.raw_version is None:
        return "it held nothing of this state"
    if why := why_changed(serving.log, ours=OURS):
        return why
    if serving.note is None:
        return "nobody knows as of when it is"
    if serving.note.state != note.state:
        # `rebuild --back`: this state was served before another one, and its mark is still in the log
        return "the state is another one"
    if serving.note.setting != note.setting:
        return "the schema, or what columns are shown as, changed"
    return "it grew and gets more buckets" if finest > serving.note.digits else ""


def _due(engine: Engine, raw: RawTable, table: TableLog, serving: ServingTable, note: Note) -> tuple[tuple[str, ...], str]:
    """Return the buckets of facts that landed since the table's raw version, or expired since its clock; or why all are due."""
    assert serving.raw_version is not None
    tail, landed = tail_of(table, after=serving.raw_version), set[str]()
    if tail.rebuild:
        return (), tail.rebuild
    if tail.files:
        sources = Sources(raw, tail.version, Parts({Part.TAIL: FileSet(tail.files)}))
        found = engine.rows(touched_buckets(raw.relation, digits=note.digits), sources)
        if FactKind.TABLE.value in found.column(names.KIND).to_pylist():
            return (), "the table was truncated"  # S6
        landed = set(found.column(PART).to_pylist())
    return tuple(sorted(landed | serving.expired(note.clock))), ""


def of_buckets(sources: Sources, parts: tuple[str, ...]) -> Sources:
    """Return `sources` with the state's files of these buckets only; with all files if `parts` is empty."""
    return in_buckets(sources, (part[1:] for part in parts)) if parts else sources
