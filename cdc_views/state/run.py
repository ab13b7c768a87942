"""`materialize`: bring a state up to date, and keep it cheap to read.

Each call reduces only the new facts, and appends their winners as a *run*. Runs then move into the base in steps:

- More than `most_runs` runs are reduced to one.
- Runs of a hundredth of the base's bytes are *merged*: reduced with the base's rows of the same keys. One commit adds the new
  versions of these rows, hides the old ones by deletion vectors, and removes the runs.
- Then the *buckets* of the base in which most rows are hidden are rewritten, a few at a time (`state.wear`).

Every step waits for a share of the base, so the cost of a fact does not depend on the base's size (docs/explanation/state.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from cdc_views.engines.base import Engine, Sources, StateWrite
from cdc_views.engines.state_plan import digits_in, part_in
from cdc_views.errors import UsageError
from cdc_views.landing.delta import open_delta, record
from cdc_views.landing.digests import check_as_written
from cdc_views.plan.compact import GROUP_DIGITS, PART, Step
from cdc_views.plan.parts import NO_FILES, STORED, FileSet, Part, Parts, Source
from cdc_views.state import sizes
from cdc_views.state.behind import BEHIND, is_behind
from cdc_views.state.commits import commit_written
from cdc_views.state.file_statistics import statistics_of
from cdc_views.state.identity import Mark, mark_after
from cdc_views.state.outcome import Materialization
from cdc_views.state.pruning import pruned
from cdc_views.state.state_table import (
    TRANSACTION,
    StateTable,
    begin,
    check_not_sole,
    checked,
    create_state,
    note_sole,
    open_state,
    part_of_file,
    state_in,
    turn,
    widen,
)
from cdc_views.state.tail import Tail, bytes_of, check_whole, rows_of, tail_of
from cdc_views.state.wear import worn_groups
from cdc_views.storage.conflicts import ConflictError, retried
from cdc_views.storage.data_files import DataFile
from cdc_views.storage.relation import RawTable
from cdc_views.storage.table_log import TableLog


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Rule M2 for a run: what ended at or before `horizon` (epoch seconds) leaves a new base; None: nothing leaves. `memory` is
    the location of another state of the same raw table, whose purges and quarantine count for this one.
    """

    horizon: int | None = None
    memory: str = ""


NOTHING = Forgetting()


def materialize(
    engine: Engine, raw: RawTable, location: str, *, full: bool = False, forgetting: Forgetting = NOTHING
) -> Materialization:
    """Bring the state at `location` up to date with the raw table; safe to run twice, at once, or again after a kill. `full`
    builds it from all of raw; facts that landed too late stay in quarantine.

    Raises:
        ConflictError: Other runs kept committing first.
        RawMismatchError: The state belongs to another raw table, or to the raw table before a backup was restored.
    """
    return retried(
        lambda: _attempt(engine, raw, location, full=full, forgetting=forgetting),
        what=f"{location}: other runs keep committing first; run the command again",
    )


def sources_of(raw: RawTable, location: str, *, where: str | None = None) -> Sources | None:
    """Return the files of the state and newer raw files, which together hold the raw table's facts; None if no state can be used.
    Leaves out files that `where` (DuckDB's SQL) rules out. Raises `RawMismatchError` if the state is not of this raw table.
    """
    table, state = _opened(raw, location)
    return sources_with(raw, table, state, where=where)


def _opened(raw: RawTable, location: str) -> tuple[TableLog, StateTable | None]:
    table, log = TableLog.find_each([raw.location, location])
    table = table or TableLog.open(raw.location)
    state = None if log is None else state_in(log, raw.relation, raw=table)
    return table, checked(state, table)


def sources_with(raw: RawTable, table: TableLog, state: StateTable | None, *, where: str | None = None) -> Sources | None:
    """As `sources_of`, but for `raw` as opened in `table`, and for a state that somebody else may have changed."""
    if state is None or state.raw_version is None:
        return None
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild or is_behind(raw, state):
        return None
    sources = _files(raw, state, tail)
    return pruned(sources, where) if where is not None else sources


def at_rest(raw: RawTable, state: StateTable) -> Sources:
    """Return the state's files: the facts of its raw table, which need not be `raw`, at the version that it covers."""
    return _files(raw, state, Tail(state.raw_version or 0))


def _files(raw: RawTable, state: StateTable, tail: Tail) -> Sources:
    """Return the files of state and tail."""
    files = dict(state.parts.without(Part.LATE).files)
    if tail.files:
        files[Part.TAIL] = FileSet(tail.files, tail.rows, statistics=statistics_of(tail.files, raw.relation))
    known = {*raw.relation.arrow_schema().names, PART}
    if raw.relation.schema.dropped or not known.issuperset(state.columns):
        # a plain row may exist only because of a dropped cell (rules W2, W6)
        files |= {Part.BASE: state.of(Source.BASE), Part.PLAIN: NO_FILES}
    return _sources(raw, tail.version, Parts(files), state)


def _sources(raw: RawTable, raw_version: int, parts: Parts, state: StateTable) -> Sources:
    hidden = tuple(file for file in state.files if file.deleted is not None)
    return Sources(
        raw, raw_version, parts, state=state.location, state_version=state.version, hidden=hidden, in_layout=state.in_layout
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """One attempt: an engine, a raw table, and its log."""

    engine: Engine
    raw: RawTable
    table: TableLog
    forgetting: Forgetting


def _attempt(engine: Engine, raw: RawTable, location: str, *, full: bool, forgetting: Forgetting) -> Materialization:
    table, found = _opened(raw, location)
    run = _Run(engine, raw, table, forgetting)
    state, late = _ready(run, location, found), 0
    if full and state.raw_version is not None and state.of(Source.PURGED):
        # M2: judge new facts by the purges so far, before these are built again
        _, state, late = _brought(run, state)  # without merges, since these refuse a damaged file, which `full` mends
    done, now, more = (*_built(run, state), 0) if full else _brought(run, state)
    merged, now = _merged(run, now)
    merged = merged or done.merged
    if merged == Step.MERGE.value:
        now = _rewritten(run, now, merged=state)
    facts, size = now.rows(STORED - {Part.LATE}), now.of(STORED).bytes
    is_new = done.is_new or bool(merged)
    return replace(done, is_new=is_new, merged=merged, state_facts=facts, state_bytes=size, late=late + more)


def _ready(run: _Run, location: str, state: StateTable | None) -> StateTable:
    """Return the state, ready to be written; create it if there is none."""
    if state is None:
        create_state(location, run.raw.relation, run.table)
        state = _state(run, location)
    if not state.is_begun:
        begin(state, run.table)
        state = replace(_state(run, location), is_earlier=state.is_earlier)
    if not (state.has_vectors and state.has_layout):
        turn(state, run.raw.relation)
        if not is_behind(run.raw, state):  # else only once it is built again
            widen(state, run.raw.relation)
        state = replace(_state(run, location), is_earlier=state.is_earlier)
    return state


def _state(run: _Run, location: str) -> StateTable:
    state = checked(open_state(location, run.raw.relation, raw=run.table), run.table)
    if state is None:
        raise UsageError(f"{location}: the state was deleted while it was brought up to date; run the command again")
    return state


def _brought(run: _Run, state: StateTable) -> tuple[Materialization, StateTable, int]:
    """Bring a state up to date, without merges; also return how many facts landed too late."""
    done, now = _updated(run, state)
    if not done.is_full:
        return done, now, now.rows(Source.LATE) - state.rows(Source.LATE)
    before = now.rows(Source.LATE)
    if now.raw_version != run.table.version:  # built from facts whose lateness had been judged
        _, now = _updated(run, now)
    return done, now, now.rows(Source.LATE) - before


def _updated(run: _Run, state: StateTable) -> tuple[Materialization, StateTable]:
    if state.mark is None or state.raw_version is None:
        return _built(run, state, why="an earlier version of cdc-views kept it" if state.is_earlier else "")
    tail = tail_of(run.table, after=state.raw_version)
    if why := tail.rebuild or (BEHIND if is_behind(run.raw, state) else ""):
        return _built(run, state, why=why)
    if not tail.files:
        return Materialization(is_new=False, raw_version=state.raw_version, facts=0), state
    mark = mark_after(state.mark, run.table)
    if _is_merge_due(state, tail) and (now := _merged_at_once(run, state, tail, mark=mark)) is not None:
        return Materialization(is_new=True, raw_version=tail.version, facts=tail.rows, merged=Step.MERGE.value), now
    parts = Parts({Part.TAIL: FileSet(tail.files, tail.rows), Part.PURGED: state.of(Source.PURGED)})
    sources = _sources(run.raw, tail.version, parts, state)
    write = StateWrite(sources, state.location, Step.RUN, sizes.SIZES.digits_of_run(tail.rows))
    return Materialization(is_new=True, raw_version=tail.version, facts=tail.rows), _committed(run, state, write, mark=mark)


def _is_merge_due(state: StateTable, tail: Tail) -> bool:
    """Whether a run of the new facts would be merged at once, and the state has purged nothing."""
    base, rows = state.of(Source.BASE), state.rows(Source.BASE)
    if not rows or tail.rows is None or state.is_former or state.of([Part.PURGED, Part.LATE]):
        return False
    most_bytes = state.of([Part.RUN]).bytes + base.bytes * tail.rows / rows
    return tail.rows >= sizes.SIZES.at_once_share * rows and most_bytes < sizes.SIZES.rebase_share * base.bytes


def _merged_at_once(run: _Run, state: StateTable, tail: Tail, *, mark: Mark) -> StateTable | None:
    """Merge new facts in one commit, without a run in between; None if no row of the base would stay."""
    sources = _files(run.raw, state, tail)
    if sources.split() is None:
        return None
    digits = _merge_digits(state, sources.parts.of(Source.FRESH))
    return _committed(run, state, StateWrite(sources, state.location, Step.MERGE, digits), mark=mark, removed=[Part.RUN])


def _built(run: _Run, state: StateTable, *, why: str = "") -> tuple[Materialization, StateTable]:
    raw, table = run.raw, run.table
    check_whole(raw.location, what=f"a state built from raw ({why or 'all of it, as asked for'})")
    check_not_sole(state, what=f"a state built from raw ({why or 'all of it, as asked for'})")
    memory = _state(run, run.forgetting.memory) if run.forgetting.memory else state
    remembers = memory.raw_version is not None and bool(memory.of(Source.PURGED))
    is_judged = why in ("", BEHIND)  # else raw is not what it was
    if remembers and is_judged and memory.raw_version is not None and tail_of(table, after=memory.raw_version).files:
        # M2: read only facts whose lateness was judged; newer ones are the next tail
        table = TableLog.open(raw.location, version=memory.raw_version)
    parts = Parts({Part.PURGED: memory.of(Source.PURGED), Part.LATE: memory.of(Source.LATE)}) if remembers else Parts()
    sources = replace(_sources(raw, table.version, parts, memory), is_raw=True)
    digits = sizes.SIZES.digits_of_base(state.of(Source.BASE).bytes or bytes_of(table))
    write = StateWrite(sources, state.location, Step.BASE, digits, run.forgetting.horizon)
    now = _committed(run, state, write, mark=mark_after(state.mark, table), removed=STORED)
    if not now.has_layout:  # only now: a kill before would leave a state that nobody knows to lack cells
        widen(now, raw.relation)
        now = _state(run, state.location)
    return Materialization(is_new=True, raw_version=table.version, facts=rows_of(table), is_full=True, why=why), now


def _committed(run: _Run, state: StateTable, write: StateWrite, *, mark: Mark, removed: Collection[Part] = ()) -> StateTable:
    """Write and commit the files of `write`, which replace the files of some parts; return the state after it."""
    # a base replaces files of a former layout that held no facts, too
    gone = [file for file in state.files if part_of_file(file) in {*removed, *([None] if removed else [])}]
    return _with(run, state, write, mark=mark, gone=gone)


def _with(run: _Run, state: StateTable, write: StateWrite, *, mark: Mark, gone: Iterable[DataFile]) -> StateTable:
    numbers = {TRANSACTION: mark.number}
    log = commit_written(state, write, run.engine.write_state(write), removed=gone, transactions=numbers)
    now = checked(state_in(log, run.raw.relation, raw=run.table), run.table)
    assert now is not None
    return now


def _merged(run: _Run, state: StateTable) -> tuple[str, StateTable]:
    """Merge the runs if that is due; return what they became, for people, and the state of then."""
    mark = state.mark
    assert mark is not None
    due = _due(state)
    if due is None:
        return "", state
    sources = _files(run.raw, state, Tail(mark.version))
    if due is Step.MERGE and sources.split() is None:
        due = Step.BASE  # no row of the base stays as it is
    if due is Step.MERGE:
        removed, digits = frozenset({Part.RUN}), _merge_digits(state, state.of([Part.RUN]))
    elif due is Step.RUN:
        sources = replace(sources, parts=sources.parts.without(*Source.BASE.value))
        removed, digits = frozenset({Part.RUN}), sizes.SIZES.digits_of_run(state.rows([Part.RUN]))
    else:
        removed, digits = (
            STORED - {Part.LATE},
            sizes.SIZES.digits_of_base(state.of(Source.BASE).bytes + state.of([Part.RUN]).bytes),
        )
    write = StateWrite(sources, state.location, due, digits, run.forgetting.horizon if due is Step.BASE else None)
    now = _committed(run, state, write, mark=mark.following(), removed=removed)
    return "runs" if due is Step.RUN else due.value, now


def _due(state: StateTable) -> Step | None:
    """Return what runs must become now; None if they stay as they are."""
    runs, base = state.of([Part.RUN]), state.of(Source.BASE)
    if state.is_former or (runs and runs.bytes >= sizes.SIZES.rebase_share * base.bytes):
        return Step.BASE
    if runs and runs.bytes >= sizes.SIZES.merge_share * base.bytes:
        return Step.MERGE
    # the mean number of files of runs that a lookup of one key reads: a run of n digits has 2^n files
    side_by_side = sum(2.0 ** -len(digits_in(part_in(path))) for path in runs.paths)
    return Step.RUN if side_by_side > sizes.SIZES.most_runs else None


def _merge_digits(state: StateTable, fresh: FileSet) -> int:
    """Return the digits of a merge's files: few, for they are small, but no file may span two groups of buckets."""
    least = min((len(digits_in(part_in(path))) for path in state.of(Source.BASE).paths), default=0)
    return max(min(least, GROUP_DIGITS), sizes.SIZES.digits_of_run(fresh.rows))


def _rewritten(run: _Run, state: StateTable, *, merged: StateTable) -> StateTable:
    """Rewrite the most worn groups of buckets; `merged` is the state before the merge, whose bytes bound the work."""
    mark = state.mark
    assert mark is not None
    files = worn_groups(state.files, budget=state.of(Source.BASE).bytes - merged.of(Source.BASE).bytes)
    if not files:
        return state
    # M2: a fact of a run may be older than what would leave
    horizon = None if state.of([Part.RUN]) else run.forgetting.horizon
    wanted = {file.at(state.location) for file in files}
    parts = Parts({part: state.of([part]).only(wanted.__contains__) for part in (*Source.BASE.value, Part.PURGED)})
    digits = sizes.SIZES.digits_of_base(state.of(Source.BASE).bytes)
    write = StateWrite(_sources(run.raw, mark.version, parts, state), state.location, Step.BUCKETS, digits, horizon)
    return _with(run, state, write, mark=mark.following(), gone=files)


def cover(raw: RawTable, location: str, *, version: int) -> None:
    """Record that a state, if there is one, covers `raw` up to `version`, so that older log entries of raw may be deleted. Raises
    `ConflictError` if newer facts landed up to that version.
    """
    newest, table = TableLog.open(raw.location), TableLog.open(raw.location, version=version)
    state = checked(open_state(location, raw.relation, raw=newest), newest)
    if state is None or state.raw_version is None or state.raw_version >= version:
        return
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild or tail.files:
        raise ConflictError(f"{location}: events landed meanwhile; run the command again")
    record(open_delta(location, version=state.version), {TRANSACTION: mark_after(state.mark, table).number})


def build_with_state(engine: Engine, raw: RawTable, before: StateTable, location: str) -> None:
    """Build a new state at `location` from the facts of raw and of the state `before`, which may have more (M1); record that.
    Raises `UsageError` if `before` has purged deletions (rule M2): older facts in raw would show again.
    """
    if before.of(Source.PURGED):
        raise UsageError(
            f"{before.location}: has purged deletions (`materialize.lateness`), so that its facts and raw's cannot be joined; "
            "leave --with-state out, or put the raw table back that it was built from"
        )
    # the new state would be the only one, and its files have digests of their own
    check_as_written(before.location, [file.path for file in before.files], what="state")
    table = TableLog.open(raw.location)
    create_state(location, raw.relation, table)
    note_sole(location)
    # M1: any fact of raw may beat any of the state, so the state's base is only another run
    sources = at_rest(raw, before).as_runs(Source.BASE, tail=FileSet(table.paths))
    sources = replace(sources, raw_version=table.version)
    run = _Run(engine, raw, table, NOTHING)
    state = _state(run, location)
    write = StateWrite(sources, location, Step.BASE, sizes.SIZES.digits_of_base(before.of(STORED).bytes))
    _committed(run, state, write, mark=mark_after(None, table))
