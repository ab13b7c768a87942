"""`materialize`: bring a state up to date, and keep it cheap to read.

A run reduces what landed since the last one and appends the winners to the state as a *run*: work that grows with the
tail alone. Once the runs weigh a hundredth of the base, the rows that they are about are reduced with what the base has of
them: the *overlay*, whose rows stand in for the base's, so that reading need not reduce them. Once that weighs an eighth
of the base, all is reduced to a new base; and before a run becomes part of the overlay, many small ones are reduced to one.
Each step is due when a share of the base came together, so that what a fact costs on its way into the base does not depend
on how large the base is (docs/materialize.md has the figures).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from deltalake import DeltaTable

from cdc_views.engines.base import Engine, Sources, StateWrite
from cdc_views.engines.state_plan import covered_part, part_in
from cdc_views.errors import UsageError
from cdc_views.landing.delta import open_delta
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import (
    COVERS,
    LATEST,
    NO_FILES,
    PLAIN_OF,
    SINCE_BASE,
    STORED,
    FileSet,
    Part,
    Parts,
    Source,
)
from cdc_views.state.buckets import pruned
from cdc_views.state.file_statistics import statistics_of
from cdc_views.state.identity import Mark, mark_after
from cdc_views.state.newest_write_bound import record_settled
from cdc_views.state.outcome import NOTHING, Forgetting, Materialization
from cdc_views.state.retention_check import check_not_sole, check_whole
from cdc_views.state.state_table import TRANSACTION, StateTable, begin, checked, create_state, open_state
from cdc_views.state.tail import Tail, active_files, rows_of, tail_of
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

REBASE_SHARE = 0.125
"""The bytes of runs and overlay, in parts of the base's, at which they are merged into it."""
OVERLAY_SHARE = 0.01
"""The runs' bytes, in parts of the base's, at which they become part of the overlay."""
AT_ONCE_SHARE = 0.02
"""New facts, in parts of the base's rows, that become part of the overlay without a run of their own: it would be due."""
MOST_RUNS = 8
"""How many runs are read side by side before they are merged into one."""
_DIGITS = ((50_000, 0), (200_000, 3), (800_000, 4), (2_000_000, 6), (10_000_000, 7), (100_000_000, 8))
"""A file for each value of the partition digest's first binary digits: up to so many facts, so many digits."""
_MOST_DIGITS = 11
_DIGITS_OF_UNKNOWN = 4
_REPLACED = {Part.BASE: STORED, Part.OVERLAY: SINCE_BASE, Part.RUN: frozenset({Part.RUN})}
_MERGED = {Part.BASE: "base", Part.OVERLAY: "overlay", Part.RUN: "runs"}


def materialize(
    engine: Engine, raw: RawTable, location: str, *, full: bool = False, forgetting: Forgetting = NOTHING
) -> Materialization:
    """Bring the state at `location` up to date with the raw table; safe to run twice, at once, or again after a kill.

    Args:
        engine: What reduces.
        raw: The raw table, which exists.
        location: Where the state is, or is to be.
        full: Build it from all of raw, whatever is there; what landed too late stays in quarantine.
        forgetting: What may leave the state.

    Raises:
        ConflictError: Other runs kept committing first.
        RawMismatchError: The state belongs to another raw table, or to what the raw table was before a backup was restored.
    """
    create_state(location, raw.relation, open_delta(raw.location))
    return retried(
        lambda: _attempt(engine, raw, location, full=full, forgetting=forgetting),
        what=f"{location}: other runs keep committing first; run the command again",
    )


def sources_of(raw: RawTable, location: str, *, where: str | None = None) -> Sources | None:
    """Return the state and the raw files since, which amount to the raw table as it is now; None without a state.

    Files that the condition `where` (DuckDB's SQL) rules out are left out. Raises `RawMismatchError` where the state does
    not belong to the raw table.
    """
    table = open_delta(raw.location)
    return _since(raw, table, checked(open_state(location, raw.relation, raw=table), table), where=where)


def as_found(raw: RawTable, state: StateTable) -> Sources | None:
    """As `sources_of`, whatever somebody did to the rows of `state`."""
    return _since(raw, open_delta(raw.location), state)


def _since(raw: RawTable, table: DeltaTable, state: StateTable | None, *, where: str | None = None) -> Sources | None:
    if state is None or state.raw_version is None:
        return None
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild:
        return None
    sources = _files(raw, state, tail)
    return _known(pruned(sources, where) if where is not None else sources, state)


def at_rest(raw: RawTable, state: StateTable) -> Sources:
    """Return the state's files, which amount to the raw table, whichever it was, as of the version that the state covers."""
    return _known(_files(raw, state, Tail(state.raw_version or 0)), state)


def _files(raw: RawTable, state: StateTable, tail: Tail) -> Sources:
    """The files there are; `_known` reads the footers of those that are left of them."""
    files = {**state.parts.without(Part.LATE).files, Part.TAIL: FileSet(tail.files, tail.rows)}
    if not _has_every_column(raw, state):
        for part, plain in PLAIN_OF.items():
            files |= {part: state.of([part, plain]), plain: NO_FILES}
    files[Part.COVERED] = _covered(state)
    return Sources(raw, tail.version, Parts(files))


def _covered(state: StateTable) -> FileSet:
    """The file that says which rows of just these files of the base the overlay replaces."""
    if not state.of([Part.COVERED]):
        return NO_FILES
    part = covered_part(state.of(Source.BASE).paths)
    return FileSet(tuple(path for path in state.of([Part.COVERED]).paths if part_in(path) == part)[:1])


def _has_every_column(raw: RawTable, state: StateTable) -> bool:
    """Whether no column was dropped. A dropped cell may be all that a plain row exists by (rules W2, W6)."""
    known = {*raw.relation.arrow_schema().names, PART, COVERS}
    return not raw.relation.schema.dropped and known.issuperset(state.columns)


def _known(sources: Sources, state: StateTable) -> Sources:
    """`sources` with what the footers of its files say. Those of plain rows need no reading, for they hold rows alone."""
    newest = LATEST if state.settled is None else state.settled
    files = dict(sources.parts.files)
    for part in (Part.BASE, Part.OVERLAY, Part.RUN, Part.TAIL):
        files[part] = replace(files[part], statistics=statistics_of(files[part].paths, sources.raw.relation))
    for part in Source.SETTLED.value:
        files[part] = replace(files[part], statistics=replace(files[part].statistics, newest=newest))
    return replace(sources, parts=Parts(files))


def _attempt(engine: Engine, raw: RawTable, location: str, *, full: bool, forgetting: Forgetting) -> Materialization:
    table = open_delta(raw.location)
    state = _begun(table, raw, location)
    late = 0
    if full and state.raw_version is not None and state.of(Source.PURGED):
        # what landed since is judged by what was purged until now, before all is built anew
        late = _attempt(engine, raw, location, full=False, forgetting=forgetting).late
        state = _state(table, raw, location)
    if full:
        done = _built(engine, raw, table, state, forgetting=forgetting)
    else:
        done = _updated(engine, raw, table, state, forgetting=forgetting)
    now = _state(table, raw, location)
    late += 0 if done.is_full else now.rows(Source.LATE) - state.rows(Source.LATE)
    merged = _merged(engine, raw, now, horizon=forgetting.horizon)
    if merged:
        now = _state(table, raw, location)
    facts, size = now.rows(STORED - {Part.LATE, Part.COVERED}), now.of(STORED).bytes
    is_new = done.is_new or bool(merged)
    return replace(done, is_new=is_new, merged=merged or done.merged, state_facts=facts, state_bytes=size, late=late)


def _state(table: DeltaTable, raw: RawTable, location: str) -> StateTable:
    state = checked(open_state(location, raw.relation, raw=table), table)
    if state is None:
        raise UsageError(f"{location}: the state was deleted while it was brought up to date; run the command again")
    return state


def _begun(table: DeltaTable, raw: RawTable, location: str) -> StateTable:
    """The state, which says from here on whose it is."""
    state = _state(table, raw, location)
    if state.is_begun:
        return state
    begin(state, table)
    return replace(_state(table, raw, location), is_earlier=state.is_earlier)


def _updated(engine: Engine, raw: RawTable, table: DeltaTable, state: StateTable, *, forgetting: Forgetting) -> Materialization:
    if state.mark is None or state.raw_version is None:
        why = "an earlier version of cdc-views kept it" if state.is_earlier else ""
        return _built(engine, raw, table, state, why=why, forgetting=forgetting)
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild:
        return _built(engine, raw, table, state, why=tail.rebuild, forgetting=forgetting)
    if not tail.files:
        return Materialization(is_new=False, raw_version=state.raw_version, facts=0)
    mark = mark_after(state.mark, table)
    if _is_overlay_due(state, tail) and _overlaid(engine, raw, state, tail, mark=mark):
        return Materialization(is_new=True, raw_version=tail.version, facts=tail.rows, merged="overlay")
    parts = Parts({Part.TAIL: FileSet(tail.files, tail.rows), Part.PURGED: state.of(Source.PURGED)})
    write = StateWrite(Sources(raw, tail.version, parts), state.location, Part.RUN, digits_for(tail.rows))
    _commit(engine, state, write, mark=mark)
    return Materialization(is_new=True, raw_version=tail.version, facts=tail.rows)


def _is_overlay_due(state: StateTable, tail: Tail) -> bool:
    """Whether what landed is so much that its run would become part of the overlay at once, and all else stays simple."""
    base, rows = state.of(Source.BASE), state.rows(Source.BASE)
    if not rows or tail.rows is None or state.of([Part.PURGED, Part.LATE]):
        return False
    most_bytes = state.of(Source.SINCE).bytes + base.bytes * tail.rows / rows
    return tail.rows >= AT_ONCE_SHARE * rows and most_bytes < REBASE_SHARE * base.bytes


def _overlaid(engine: Engine, raw: RawTable, state: StateTable, tail: Tail, *, mark: Mark) -> bool:
    """Take what landed into the overlay in one commit, without a run between; False where no row of the base stays."""
    sources = _known(_files(raw, state, tail), state)
    if sources.split() is None:
        return False
    digits = digits_for(state.rows(Source.SINCE) + (tail.rows or 0))
    _commit(engine, state, StateWrite(sources, state.location, Part.OVERLAY, digits, SINCE_BASE), mark=mark)
    return True


def _built(
    engine: Engine,
    raw: RawTable,
    table: DeltaTable,
    state: StateTable,
    *,
    why: str = "",
    forgetting: Forgetting,
) -> Materialization:
    check_whole(raw.location, what=f"a state built from raw ({why or 'all of it, as asked for'})")
    check_not_sole(state, what=f"a state built from raw ({why or 'all of it, as asked for'})")
    memory = _state(table, raw, forgetting.memory) if forgetting.memory else state
    remembers = memory.raw_version is not None and bool(memory.of(Source.PURGED))
    if remembers and not why and memory.raw_version is not None and tail_of(table, after=memory.raw_version).files:
        # no further than what was judged: what landed since is the next tail
        table = open_delta(raw.location, version=memory.raw_version)
    rows = rows_of(table)
    parts = Parts({Part.PURGED: memory.of(Source.PURGED), Part.LATE: memory.of(Source.LATE)}) if remembers else Parts()
    sources = Sources(raw, table.version(), parts, is_raw=True)
    replaced = STORED if state.of(STORED) else frozenset[Part]()
    write = StateWrite(sources, state.location, Part.BASE, digits_for(rows), replaced, forgetting.horizon)
    _commit(engine, state, write, mark=mark_after(state.mark, table), landed=active_files(table).values())
    return Materialization(is_new=True, raw_version=table.version(), facts=rows, is_full=True, why=why)


def _commit(engine: Engine, state: StateTable, write: StateWrite, *, mark: Mark, landed: Iterable[str] = ()) -> None:
    """Commit `write` on top of `state`; `landed` are the files of a write that reads all of raw.

    Before a base or an overlay, records how new the facts may be that it takes in.
    """
    version, sources = state.version, write.sources
    if write.into is not Part.RUN:
        taken = sources.paths(Source.ALL if state.settled is None else Source.SINCE)
        newest = statistics_of([*taken, *landed], sources.raw.relation).newest
        version = record_settled(state.location, version, TRANSACTION, newest)
    engine.write_state(replace(write, version=version, transaction=(TRANSACTION, mark.number)))


def _merged(engine: Engine, raw: RawTable, state: StateTable, *, horizon: int | None) -> str:
    """Reduce runs, or all, where it is due; returns what was merged."""
    mark = state.mark
    assert mark is not None
    due = _due(state)
    if due is None:
        return ""
    sources = _known(_files(raw, state, Tail(mark.version)), state)
    if due is Part.OVERLAY and sources.split() is None:
        due = Part.BASE  # no row of the base stays as it is
    if due is Part.BASE:
        sources = sources.as_runs(Source.OVERLAY)
    elif due is Part.RUN:
        sources = replace(sources, parts=sources.parts.without(*Source.SETTLED.value))
    replaced = _REPLACED[due]
    if due is Part.BASE and state.of(Source.LATE):
        replaced -= {Part.LATE}  # M2: what is in quarantine stays there
    digits = digits_for(state.rows(replaced & set(Source.ALL.value)))
    write = StateWrite(sources, state.location, due, digits, replaced, horizon)
    _commit(engine, state, write, mark=mark.following())
    return _MERGED[due]


def _due(state: StateTable) -> Part | None:
    """What runs are to become part of: the base, the overlay, or one run; None while they may stay as they are."""
    runs, base, since = (state.of(parts).bytes for parts in ([Part.RUN], Source.BASE, Source.SINCE))
    if since and since >= REBASE_SHARE * base:
        return Part.BASE
    if runs and base and runs >= OVERLAY_SHARE * base:
        return Part.OVERLAY
    return Part.RUN if _side_by_side(state) > MOST_RUNS else None


def _side_by_side(state: StateTable) -> float:
    """How many runs a lookup of one key meets on average: a run of n digits has 2^n files, and a key is in one of them."""
    return sum(2.0 ** (len(Part.RUN.value) - len(part_in(path))) for path in state.of([Part.RUN]).paths)


def digits_for(rows: int | None) -> int:
    """Return by how many digits of the partition key's digest so many facts are split; None: nobody knows how many."""
    for most, digits in _DIGITS:
        if rows is not None and rows <= most:
            return digits
    return _MOST_DIGITS if rows is not None else _DIGITS_OF_UNKNOWN
