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
from cdc_views.engines.state_plan import covered_part
from cdc_views.errors import UsageError
from cdc_views.landing.delta import delta_errors
from cdc_views.plan.compact import BASE, COVERED, COVERS, LATE, OVERLAY, OVERLAY_PLAIN, PART, PLAIN, PURGED, RUN
from cdc_views.state.buckets import pruned
from cdc_views.state.file_statistics import Reach, reach_of
from cdc_views.state.identity import Mark, mark_after
from cdc_views.state.newest_write_bound import record_settled
from cdc_views.state.outcome import NOTHING, Forgetting, Materialization
from cdc_views.state.retention_check import check_not_sole, check_whole
from cdc_views.state.state_table import TRANSACTION, File, StateTable, begin, checked, create_state, open_state
from cdc_views.state.tail import Tail, active_files, rows_of, tail_of
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable

REBASE_SHARE = 0.125
"""The bytes of runs and overlay, in parts of the base's, at which they are merged into it."""
OVERLAY_SHARE = 0.01
"""The runs' bytes, in parts of the base's, at which they become part of the overlay."""
AT_ONCE_SHARE = 0.02
"""New facts, in parts of the base's rows, that become part of the overlay without a run of their own: it would be due."""
_SINCE_BASE = OVERLAY + RUN + OVERLAY_PLAIN
EVERYTHING = BASE + PLAIN + _SINCE_BASE
"""The letters of the facts that a new base replaces; see `StateWrite.replaced`."""
MOST_RUNS = 8
"""How many runs are read side by side before they are merged into one."""
MOST_BROADCAST = 2_000_000
"""Fresh facts, each with a key, up to which their keys are sent to every worker rather than shuffled."""
MOST_CELLS_BROADCAST = 2_000_000
"""Fresh facts times columns up to which what they say, reduced, is sent to every worker: some hundred MB there."""
_DIGITS = ((50_000, 0), (200_000, 3), (800_000, 4), (2_000_000, 6), (10_000_000, 7), (100_000_000, 8))
"""A file for each value of the partition digest's first binary digits: up to so many facts, so many digits."""
_MOST_DIGITS = 11
_DIGITS_OF_UNKNOWN = 4


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
    create_state(location, raw.relation, _open(raw))
    return retried(
        lambda: _attempt(engine, raw, location, full=full, forgetting=forgetting),
        what=f"{location}: other runs keep committing first; run the command again",
    )


def sources_of(raw: RawTable, location: str, *, where: str | None = None) -> Sources | None:
    """Return the state and the raw files since, which amount to the raw table as it is now; None without a state.

    Files that the condition `where` (DuckDB's SQL) rules out are left out. Raises `RawMismatchError` where the state does
    not belong to the raw table.
    """
    table = _open(raw)
    return _since(raw, table, checked(open_state(location, raw.relation, raw=table), table), where=where)


def as_found(raw: RawTable, state: StateTable) -> Sources | None:
    """As `sources_of`, whatever somebody did to the rows of `state`."""
    return _since(raw, _open(raw), state)


def _since(raw: RawTable, table: DeltaTable, state: StateTable | None, *, where: str | None = None) -> Sources | None:
    if state is None or state.raw_version is None:
        return None
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild:
        return None
    sources = _files(raw, state, tail)
    return _to_read(pruned(sources, state, where) if where is not None else sources, state)


def at_rest(raw: RawTable, state: StateTable) -> Sources:
    """Return the state's files, which amount to the raw table, whichever it was, as of the version that the state covers."""
    return _to_read(_files(raw, state, Tail(state.raw_version or 0)), state)


def _open(raw: RawTable) -> DeltaTable:
    with delta_errors(raw.location):
        return DeltaTable(raw.location)


def _files(raw: RawTable, state: StateTable, tail: Tail) -> Sources:
    """The files there are; `_reaching` says of what is left of them how far their facts reach."""
    judged, plain, over, over_plain, runs = (_paths(state, part) for part in (BASE, PLAIN, OVERLAY, OVERLAY_PLAIN, RUN))
    has_plain = _has_every_column(raw, state)
    fresh = _rows(state, RUN) + (tail.rows if tail.rows is not None else MOST_BROADCAST)
    return Sources(
        raw,
        tail.version,
        state.location,
        state.version,
        judged + plain,
        plain if has_plain else (),
        over + over_plain,
        over_plain if has_plain else (),
        runs,
        tail.files,
        is_fresh_small=fresh < MOST_BROADCAST,
        are_fresh_rows_small=fresh * len(raw.relation.schema.columns) < MOST_CELLS_BROADCAST,
        is_overlay_small=fresh + _rows(state, OVERLAY, OVERLAY_PLAIN) < MOST_BROADCAST,
        purged=_paths(state, PURGED),
        covered=_covered(state, judged + plain),
    )


def _covered(state: StateTable, base: tuple[str, ...]) -> str:
    """The file that says which rows of just these files the overlay stands in for."""
    if not state.of(COVERED):
        return ""
    part = covered_part(base)
    return next((file.path for file in state.of(COVERED) if file.part == part), "")


def _reaching(sources: Sources) -> Sources:
    """`sources` with what the statistics in the footers of runs and tail tell."""
    return _told(sources, _reach(sources, sources.runs + sources.tail))


def _told(sources: Sources, fresh: Reach) -> Sources:
    return replace(sources, has_scopes=fresh.has_scopes, has_truncates=fresh.has_truncates)


def _reach(sources: Sources, files: tuple[str, ...]) -> Reach:
    return reach_of(files, sources.raw.relation)


def _to_read(sources: Sources, state: StateTable) -> Sources:
    """The same, with what those of base and overlay tell, too, but for plain rows, which are rows alone."""
    fresh = _reach(sources, sources.runs + sources.tail)
    old = _reach(sources, sources.judged + sources.overlay_judged)
    is_newer = state.settled is not None and state.settled < fresh.oldest
    return replace(_told(sources, fresh), has_old_scopes=old.has_scopes, is_fresh_newer=is_newer)


def _has_every_column(raw: RawTable, state: StateTable) -> bool:
    """Whether no column was dropped, whose cells alone may be why a plain row exists (rules W2, W6)."""
    known = {*raw.relation.arrow_schema().names, PART, COVERS}
    return not raw.relation.schema.dropped and known.issuperset(state.columns)


def _paths(state: StateTable, prefix: str) -> tuple[str, ...]:
    return tuple(file.path for file in state.of(prefix))


def _rows(state: StateTable, *prefixes: str) -> int:
    return sum(file.rows for prefix in prefixes for file in state.of(prefix))


def _attempt(engine: Engine, raw: RawTable, location: str, *, full: bool, forgetting: Forgetting) -> Materialization:
    table = _open(raw)
    state = _begun(table, raw, location)
    late = 0
    if full and state.raw_version is not None and state.of(PURGED):
        # what landed since is judged by what was purged until now, before all is built anew
        late = _attempt(engine, raw, location, full=False, forgetting=forgetting).late
        state = _state(table, raw, location)
    if full:
        done = _built(engine, raw, table, state, forgetting=forgetting)
    else:
        done = _updated(engine, raw, table, state, forgetting=forgetting)
    now = _state(table, raw, location)
    late += 0 if done.is_full else _rows(now, LATE) - _rows(state, LATE)
    merged = _merged(engine, raw, now, horizon=forgetting.horizon)
    if merged:
        now = _state(table, raw, location)
    facts, size = _rows(now, "") - _rows(now, LATE, COVERED), sum(file.size for file in now.files)
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
        return Materialization(False, state.raw_version, 0)
    mark = mark_after(state.mark, table)
    if _is_overlay_due(state, tail) and _overlaid(engine, raw, state, tail, mark=mark):
        return Materialization(True, tail.version, tail.rows, merged="overlay")
    sources = Sources(raw, tail.version, state.location, state.version, tail=tail.files, purged=_paths(state, PURGED))
    write = StateWrite(
        sources,
        state.location,
        state.version,
        RUN,
        digits_for(tail.rows),
        "",
        (TRANSACTION, mark.number),
    )
    engine.write_state(write)
    return Materialization(True, tail.version, tail.rows)


def _is_overlay_due(state: StateTable, tail: Tail) -> bool:
    """Whether what landed is so much that its run would become part of the overlay at once, and all else stays simple."""
    base_rows, base = _rows(state, BASE, PLAIN), _size(state, BASE + PLAIN)
    if not base_rows or tail.rows is None or state.of(PURGED) or state.of(LATE):
        return False
    most_bytes = _size(state, _SINCE_BASE) + base * tail.rows / base_rows
    return tail.rows >= AT_ONCE_SHARE * base_rows and most_bytes < REBASE_SHARE * base


def _overlaid(engine: Engine, raw: RawTable, state: StateTable, tail: Tail, *, mark: Mark) -> bool:
    """Take what landed into the overlay in one commit, without a run between; False where no row of the base stays."""
    sources = _reaching(_files(raw, state, tail))
    if sources.split is None:
        return False
    digits = digits_for(_rows(state, *_SINCE_BASE) + (tail.rows or 0))
    target = _settling(raw, state, files=_newly_settled(state, sources))
    write = StateWrite(sources, state.location, target, OVERLAY, digits, _SINCE_BASE, (TRANSACTION, mark.number))
    engine.write_state(write)
    return True


def _newly_settled(state: StateTable, sources: Sources) -> tuple[str, ...]:
    """Files of which the bound of what base and overlay hold may not know."""
    return sources.files if state.settled is None else sources.overlay + sources.runs + sources.tail


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
    remembers = memory.raw_version is not None and bool(memory.of(PURGED))
    if remembers and not why and memory.raw_version is not None and tail_of(table, after=memory.raw_version).files:
        # no further than what was judged: what landed since is the next tail
        with delta_errors(raw.location):
            table = DeltaTable(raw.location, version=memory.raw_version)
    version, rows = table.version(), rows_of(table)
    sources = Sources(raw, version, is_raw=True)
    if remembers:
        purged, late = _paths(memory, PURGED), _paths(memory, LATE)
        sources = replace(sources, state=memory.location, state_version=memory.version, purged=purged, late=late)
    mark = mark_after(state.mark, table)
    replaced = EVERYTHING if state.files else ""
    digits, horizon = digits_for(rows), forgetting.horizon
    target = _settling(raw, state, files=active_files(table).values())
    write = StateWrite(sources, state.location, target, BASE, digits, replaced, (TRANSACTION, mark.number), horizon=horizon)
    engine.write_state(write)
    return Materialization(True, version, rows, is_full=True, why=why)


def _settling(raw: RawTable, state: StateTable, *, files: Iterable[str]) -> int:
    """Record how new base and overlay may become, of `files`, and return the state's version to build on."""
    newest = reach_of(files, raw.relation).newest
    return record_settled(state.location, state.version, TRANSACTION, newest)


def _merged(engine: Engine, raw: RawTable, state: StateTable, *, horizon: int | None) -> str:
    """Reduce runs, or all, where it is due; returns what was merged."""
    mark = state.mark
    assert mark is not None
    due = _due(state)
    if not due:
        return ""
    sources = _reaching(_files(raw, state, Tail(mark.version)))
    if due == OVERLAY and sources.split is None:
        due = BASE  # no row of the base stays as it is
    if due == BASE:
        sources = _reaching(sources.as_runs())
    elif due == RUN:
        sources = replace(sources, base=(), plain=(), overlay=(), overlay_plain=())
    letters = {BASE: EVERYTHING, OVERLAY: _SINCE_BASE, RUN: RUN}[due]
    digits = digits_for(_rows(state, *letters))
    target = state.version
    if due != RUN:
        target = _settling(raw, state, files=_newly_settled(state, sources))
    write = StateWrite(sources, state.location, target, due, digits, letters, (TRANSACTION, mark.following().number))
    engine.write_state(replace(write, horizon=horizon, keeps_late=bool(state.of(LATE))))
    return {BASE: "base", OVERLAY: "overlay", RUN: "runs"}[due]


def _due(state: StateTable) -> str:
    """What runs are to become part of: the base, the overlay, or one run; empty while they may stay as they are."""
    runs, base = _size(state, RUN), _size(state, BASE + PLAIN)
    since = _size(state, _SINCE_BASE)
    if since and since >= REBASE_SHARE * base:
        return BASE
    if runs and base and runs >= OVERLAY_SHARE * base:
        return OVERLAY
    return RUN if _side_by_side(state.of(RUN)) > MOST_RUNS else ""


def _size(state: StateTable, letters: str) -> int:
    return sum(file.size for letter in letters for file in state.of(letter))


def _side_by_side(runs: tuple[File, ...]) -> float:
    """How many runs a lookup of one key meets on average."""
    return sum(2.0 ** (len(RUN) - len(file.part)) for file in runs)


def digits_for(rows: int | None) -> int:
    """Return by how many digits of the partition key's digest so many facts are split; None: nobody knows how many."""
    for most, digits in _DIGITS:
        if rows is not None and rows <= most:
            return digits
    return _MOST_DIGITS if rows is not None else _DIGITS_OF_UNKNOWN
