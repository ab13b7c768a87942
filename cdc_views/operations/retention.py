"""Raw retention: drops old raw events once the state provably covers them.

The proof: state and raw show the same rows; if raw already has gaps, its events do not change the state's rows. Then one
commit drops the rows and records the instant before which raw has gaps. From then on, reads that need dropped events refuse
(`check_raw_is_whole`). An archive is written before that commit, into `DIR/<name>/<Delta id of raw>/drop-<number>`; the
commit records the number, so the next run overwrites the folder of a killed one.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from cdc_views.engines.base import Engine, Sources
from cdc_views.errors import CheckFailedError, UnsupportedError, UsageError
from cdc_views.formats.base import SourceLine
from cdc_views.landing.delta import open_delta, recorded
from cdc_views.landing.denylist import Denylist, without_forgotten
from cdc_views.landing.spreading import Tasks
from cdc_views.landing.vacuum import active_files
from cdc_views.operations.answers import Side, compare_sides
from cdc_views.operations.applying import Changed, refresh_view
from cdc_views.operations.context import TableContext
from cdc_views.operations.erasing.rewriting import batches, commit_actions, rewrite, statistics, written
from cdc_views.operations.ingest import check_landed
from cdc_views.operations.lateness import state_of
from cdc_views.operations.renewing import renewed
from cdc_views.operations.scheduling import holding, lock_folder
from cdc_views.operations.spreading import spreading
from cdc_views.plan.parts import FileSet, Part, Parts, Source
from cdc_views.rules.facts import Fact
from cdc_views.rules.instants import micros, span_seconds
from cdc_views.state import materialize, sources_of
from cdc_views.state.run import cover
from cdc_views.state.tail import DROPPED, RETENTION
from cdc_views.storage.conflicts import ConflictError, retried
from cdc_views.storage.places import arrow_source, copy_file, place_of, size_of
from cdc_views.storage.relation_read import facts_of

_DROPS, _ROWS = "cdc-views:drops", "cdc-views:dropped-rows"
"""Transaction ids: the number of drops since raw was whole, and their rows."""
REFUSED = (
    "`explain`, `history`, `replicas`, `query` with --raw-only, --confirmed, --landed-as-of or --written-as-of, `rebuild`, "
    "`materialize --full`, views of raw alone"
)


@dataclass(frozen=True, slots=True)
class Dropped:
    """The dropped facts, done or planned: rows and their files, all landed before `through` (µs)."""

    location: str
    through: int
    rows: int
    files: int
    archive: str = ""

    def line(self) -> str:
        """Return one line for people."""
        kept = f"; they are in {self.archive}" if self.archive else ""
        return f"{self.rows:,} raw facts of {self.files:,} files{kept}. What needs them refuses: {REFUSED}"


def drop_raw(
    table: TableContext,
    *,
    older_than: str,
    now: datetime,
    archive: Path | None = None,
    dry_run: bool = False,
    engine: str | None = None,
    wait: float = 0.0,
) -> Dropped:
    """Drop raw facts that landed longer ago than `older_than` (`30d`, `12h`), if the state provably covers them.

    Raises `UsageError` without a state or for an invalid span, `CheckFailedError` if state and raw do not show the same rows
    (then nothing was dropped), `TableLockedError` during another run of the table.
    """
    span = span_seconds(older_than, option="drop-raw-older-than", example="30d", digits=6)
    through = micros(now) - span * 1_000_000
    table = renewed(table)
    _check_can(table)
    if sources_of(table.raw, table.state_location) is None:
        raise UsageError(f"{table.name}: has no state that covers its raw events; run `cdc-views materialize` first")
    with spreading(table.project, engine) as tasks:
        if dry_run:
            old = _old(open_delta(table.raw.location), through, tasks)
            return Dropped(table.raw.location, through, sum(old.values()), len(old))
        held = holding(lock_folder(table.project, table.config), table=table.name, wait=wait)
        with held, table.project.engine(engine) as opened:
            dropping = _Dropping(table, opened, through, archive, int(now.timestamp()), tasks)
            what = f"{table.raw.location}: other writers keep committing first; run the command again"
            done = retried(dropping.attempt, what=what)
    refresh_view(table)
    return done


@dataclass(frozen=True, slots=True)
class _Dropping:
    """One call; `through` is in µs, `clock` in seconds."""

    table: TableContext
    engine: Engine
    through: int
    archive: Path | None
    clock: int
    tasks: Tasks

    def attempt(self) -> Dropped:
        raw, location = self.table.raw, self.table.state_location
        materialize(self.engine, raw, location)
        table = open_delta(raw.location)
        cover(raw, location, version=table.version())
        old = _old(table, self.through, self.tasks)
        if not old:
            return Dropped(raw.location, self.through, 0, 0)
        rows = sum(old.values())
        self._prove(table, location)
        # a view of raw alone, or of an older generation, would lack what is dropped
        refresh_view(self.table, Changed.STATE, engine=self.engine)
        folder = None if self.archive is None else self._archived(table, self.archive, old)
        generations = self.table.generations
        for other in generations.numbers:
            if other != generations.current:  # it covers less of raw and would lose the dropped facts
                generations.remove(other)
        number, gone = recorded(table, _DROPS) or 0, recorded(table, _ROWS) or 0
        through = max(self.through, recorded(table, DROPPED) or 0)
        noted = {DROPPED: through, _DROPS: number + 1, _ROWS: gone + rows}
        how: Any = {"mark": RETENTION, "transactions": noted, "seen": active_files(table)}
        rewrite(table, partial(_younger, self.through), **how, among=old.keys(), tasks=self.tasks)
        with suppress(ConflictError):  # the next run covers later facts
            cover(raw, location, version=open_delta(raw.location).version())
        return Dropped(raw.location, through, rows, len(old), str(folder or ""))

    def _prove(self, table: DeltaTable, location: str) -> None:
        """Compare the state alone with raw alone, if raw is whole, and with both together."""
        kept, state = state_of(self.table), sources_of(self.table.raw, location)
        assert kept is not None
        assert state is not None
        state = replace(state, parts=state.parts.without(Part.TAIL))
        others = {"state and raw together": state.as_runs(Source.BASE, tail=FileSet(tuple(sorted(active_files(table)))))}
        if not recorded(table, DROPPED) and not kept.is_sole:
            late = Parts({Part.LATE: kept.of(Source.LATE)})  # raw has these facts too, but no read shows them (rule M2)
            others["raw"] = Sources(self.table.raw, state.raw_version, late, is_raw=True)
        # a read at 0, before every expiry, shows all expired cells
        instants = (self.clock,) if self.table.config.materialize.lateness else (self.clock, 0)
        for instant in instants:
            shown = Side(self.engine, state, instant)
            for what, other in others.items():
                found = compare_sides(shown, Side(self.engine, other, instant))
                if not found.is_equal:
                    more = f"; too many differ, {found.uncompared:,} rows more were not compared" if found.uncompared else ""
                    raise CheckFailedError(
                        f"{self.table.name}: the state shows other rows than {what}: {found.changed:,} changed, {found.gone:,} "
                        f"only in the state, {found.new:,} missing in it{more}; nothing was dropped. Build the state anew: "
                        "`cdc-views rebuild`"
                    )

    def _archived(self, table: DeltaTable, archive: Path, old: Collection[str]) -> Path:
        folder = _folder(self.table, table, archive) / f"drop-{(recorded(table, _DROPS) or 0) + 1}"
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        files, sees = sorted(old), [self.table.raw.location, str(folder)]
        self.tasks.each(partial(_archive, self.through, folder), files, sizes=[size_of(file) for file in files], sees=sees)
        _sync(folder)
        return folder


def restore_raw(table: TableContext, archive: Path) -> int:
    """Restore dropped facts from their archive, except forgotten keys; returns the number of facts in the archive. Raises
    `UsageError` if nothing was dropped, or the archive is incomplete.
    """
    _check_can(table)
    raw = open_delta(table.raw.location)
    number, gone = recorded(raw, _DROPS) or 0, recorded(raw, _ROWS) or 0
    if not recorded(raw, DROPPED):
        raise UsageError(f"{table.raw.location}: no events were dropped from it")
    folder = _folder(table, raw, archive)
    files = [file for n in range(1, number + 1) for file in sorted((folder / f"drop-{n}").glob("*.parquet"))]
    rows = sum(int(pq.read_metadata(file).num_rows) for file in files)
    if rows != gone:
        raise UsageError(
            f"{folder}: has {rows:,} of the {gone:,} facts that were dropped; drop-1 to drop-{number} were expected, whole; "
            "nothing was done"
        )
    forgotten = Denylist.read(table.forgotten_file)
    actions = [added for file in files for added in _put_back(table, file, forgotten)]
    commit_actions(raw, actions, mark=RETENTION, transactions={DROPPED: 0, _DROPS: 0, _ROWS: 0})
    return rows


def _put_back(table: TableContext, file: Path, forgotten: Denylist) -> Iterator[AddAction]:
    """Copy a file of the archive into raw, without forgotten keys; no data change, because the state has its facts."""
    name = f"part-00000-{uuid4()}-c000.zstd.parquet"
    path = place_of(table.raw.location) / name

    def is_kept(fact: Fact) -> bool:
        event, now = SourceLine("null"), time.time_ns() // 1000
        return not without_forgotten(forgotten, table.format, [fact], schema=table.schema, event=event, now=now)[1]

    def kept(rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array(map(is_kept, facts_of(table.raw.relation, rows)), pa.bool_()))

    if not forgotten.entries:
        copy_file(file, path)
    elif not written(file, path, kept):
        return
    count = int(pq.read_metadata(arrow_source(path)).num_rows)
    yield AddAction(name, path.stat().st_size, {}, int(time.time() * 1000), data_change=False, stats=statistics(count))


def _old(table: DeltaTable, through: int, tasks: Tasks) -> dict[str, int]:
    """Return how many facts are old in each file that has some, by its absolute path."""
    files = sorted(active_files(table))
    counts = tasks.each(partial(_count_old, through), files, sizes=[size_of(file) for file in files], sees=[table.table_uri])
    return {file: count for file, count in zip(files, counts, strict=True) if count}


def _count_old(through: int, file: str) -> int:
    return sum(pc.sum(_is_old(rows, through)).as_py() or 0 for rows in batches(place_of(file)))


def _archive(through: int, folder: Path, file: str) -> None:
    """Write the old facts of a file into the archive, first into a draft of each attempt's own."""
    archived = folder / place_of(file).name
    draft = folder / f".{archived.name}-{uuid4()}"
    written(place_of(file), draft, partial(_older, through))
    _sync(draft)
    draft.replace(archived)


def _younger(through: int, rows: pa.Table) -> pa.Table:
    """Return rows without old facts; the same object if there are none."""
    kept = rows.filter(pc.invert(_is_old(rows, through)))
    return rows if kept.num_rows == rows.num_rows else kept


def _older(through: int, rows: pa.Table) -> pa.Table:
    return rows.filter(_is_old(rows, through))


def _is_old(rows: pa.Table, through: int) -> pa.ChunkedArray:
    """Return a mask without nulls: a fact without a landing time is not old."""
    landed = rows["_landed_at"].cast(pa.timestamp("us", tz="UTC"))
    return pc.fill_null(pc.less(landed, pa.scalar(through, pa.timestamp("us", tz="UTC"))), fill_value=False)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _folder(table: TableContext, raw: DeltaTable, archive: Path) -> Path:
    return archive / table.config.slug / str(raw.metadata().id)


def _check_can(table: TableContext) -> None:
    if table.is_external:
        raise UnsupportedError(
            f"{table.name}: its raw events are somebody else's, so they cannot be dropped here",
            remedy="leave the table out with --select",
        )
    check_landed(table)
