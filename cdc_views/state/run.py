"""`materialize`: bring a state up to date, and keep it cheap to read.

Each call reduces only the new facts, and appends their winners as a *run*. Runs then move into the base in steps:

- More than `MOST_RUNS` runs are reduced to one.
- Runs of a hundredth of the base's bytes are reduced with the base's rows of the same keys: the *overlay*, whose rows
  replace the base's, so that reads need not reduce them.
- Runs and overlay of an eighth of the base's bytes are reduced with it to a new base.

Every step waits for a share of the base, so the cost of a fact does not depend on the base's size (see docs/materialize.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from cdc_views.engines.base import Engine, Sources, StateWrite
from cdc_views.engines.state_plan import covered_part, part_in
from cdc_views.errors import UsageError
from cdc_views.landing.delta import open_delta, record
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import COVERS, LATEST, NO_FILES, PLAIN_OF, SINCE_BASE, STORED, FileSet, Part, Parts, Source
from cdc_views.state.buckets import pruned
from cdc_views.state.file_statistics import statistics_of
from cdc_views.state.identity import Mark, mark_after
from cdc_views.state.state_table import (
    TRANSACTION,
    StateTable,
    begin,
    check_not_sole,
    checked,
    create_state,
    note_sole,
    open_state,
    record_settled,
)
from cdc_views.state.tail import Tail, active_files, check_whole, rows_of, tail_of
from cdc_views.storage.conflicts import ConflictError, retried
from cdc_views.storage.relation import RawTable

REBASE_SHARE = 0.125  # the share of the base's bytes at which runs and overlay become part of the base
OVERLAY_SHARE = 0.01  # the share of the base's bytes at which runs become part of the overlay
AT_ONCE_SHARE = 0.02  # the share of the base's rows at which new facts go into the overlay without a run in between
MOST_RUNS = 8  # the most runs that a lookup of one key may meet before they become one
_DIGITS = ((50_000, 0), (200_000, 3), (800_000, 4), (2_000_000, 6), (10_000_000, 7), (100_000_000, 8))
"""(facts, digits): up to so many facts are split into files by so many binary digits of the partition key's digest."""
_MOST_DIGITS = 11
_DIGITS_OF_UNKNOWN = 4
_MERGED = {Part.BASE: ("base", STORED), Part.OVERLAY: ("overlay", SINCE_BASE), Part.RUN: ("runs", frozenset({Part.RUN}))}
"""Target of runs → its name for people, and the parts that it replaces."""


@dataclass(frozen=True, slots=True)
class Materialization:
    """The result of one call."""

    is_new: bool
    raw_version: int | None  # the version of raw that the state covers now; None if a warehouse keeps both
    facts: int | None  # raw facts read; None if the raw table's log does not have it
    is_full: bool = False  # the state was built from all of raw; `why` is the reason, unless it was asked for
    why: str = ""
    merged: str = ""  # what the runs became: `runs` (one run), `overlay` or `base`; or empty
    state_facts: int = 0
    state_bytes: int = 0
    told: str = ""  # the whole line for people, if it is not about the state alone
    late: int = 0  # raw facts that went into quarantine, whole or in part, because they landed too late (rule M2)

    def line(self) -> str:
        """Return one line for people."""
        if self.told:
            return self.told
        if not self.is_new:
            return f"state is up to date with raw version {self.raw_version}"
        what = "built" if self.is_full else "brought up to date"
        read = "" if self.facts is None else f" from {self.facts:,} raw facts"
        why = f" ({self.why})" if self.why else ""
        size = f"{self.state_facts:,} facts, {self.state_bytes / 1e6:,.1f} MB"
        late = f"; {self.late:,} facts landed too late and are in quarantine" if self.late else ""
        return f"state {what}{read} to raw version {self.raw_version}{why}: {size}{late}"


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
    create_state(location, raw.relation, open_delta(raw.location))
    return retried(
        lambda: _attempt(engine, raw, location, full=full, forgetting=forgetting),
        what=f"{location}: other runs keep committing first; run the command again",
    )


def sources_of(raw: RawTable, location: str, *, where: str | None = None) -> Sources | None:
    """Return the files of the state and newer raw files, which together hold the raw table's facts; None if no state can be used.
    Leaves out files that `where` (DuckDB's SQL) rules out. Raises `RawMismatchError` if the state is not of this raw table.
    """
    table = open_delta(raw.location)
    return sources_with(raw, table, checked(open_state(location, raw.relation, raw=table), table), where=where)


def sources_with(raw: RawTable, table: DeltaTable, state: StateTable | None, *, where: str | None = None) -> Sources | None:
    """As `sources_of`, but for `raw` as opened in `table`, and for a state that somebody else may have changed."""
    if state is None or state.raw_version is None:
        return None
    tail = tail_of(table, after=state.raw_version)
    if tail.rebuild:
        return None
    sources = _files(raw, state, tail)
    return _known(pruned(sources, where) if where is not None else sources, state)


def at_rest(raw: RawTable, state: StateTable) -> Sources:
    """Return the state's files: the facts of its raw table, which need not be `raw`, at the version that it covers."""
    return _known(_files(raw, state, Tail(state.raw_version or 0)), state)


def _files(raw: RawTable, state: StateTable, tail: Tail) -> Sources:
    """Return the files of state and tail; `_known` adds the statistics of their footers."""
    files = {**state.parts.without(Part.LATE).files, Part.TAIL: FileSet(tail.files, tail.rows)}
    known = {*raw.relation.arrow_schema().names, PART, COVERS}
    if raw.relation.schema.dropped or not known.issuperset(state.columns):
        # a plain row may exist only because of a dropped cell (rules W2, W6)
        for part, plain in PLAIN_OF.items():
            files |= {part: state.of([part, plain]), plain: NO_FILES}
    if covered := state.of([Part.COVERED]).paths:
        # the file that lists, for exactly these files of the base, the rows that the overlay replaces
        folder = covered_part(state.of(Source.BASE).paths)
        files[Part.COVERED] = FileSet(tuple(path for path in covered if part_in(path) == folder)[:1])
    return Sources(raw, tail.version, Parts(files))


def _known(sources: Sources, state: StateTable) -> Sources:
    """Add the statistics of footers to `sources`. Plain files hold only rows, so their footers need no reading."""
    newest = LATEST if state.settled is None else state.settled
    files = dict(sources.parts.files)
    for part in (Part.BASE, Part.OVERLAY, Part.RUN, Part.TAIL):
        files[part] = replace(files[part], statistics=statistics_of(files[part].paths, sources.raw.relation))
    for part in Source.SETTLED.value:
        files[part] = replace(files[part], statistics=replace(files[part].statistics, newest=newest))
    return replace(sources, parts=Parts(files))


def _attempt(engine: Engine, raw: RawTable, location: str, *, full: bool, forgetting: Forgetting) -> Materialization:
    table = open_delta(raw.location)
    state, late = _state(table, raw, location), 0
    if not state.is_begun:
        begin(state, table)
        state = replace(_state(table, raw, location), is_earlier=state.is_earlier)
    if full and state.raw_version is not None and state.of(Source.PURGED):
        # M2: judge new facts by the purges so far, before these are built again
        late = _attempt(engine, raw, location, full=False, forgetting=forgetting).late
        state = _state(table, raw, location)
    done = (_built if full else _updated)(engine, raw, table, state, forgetting=forgetting)
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
    """Whether a run of the new facts would become part of the overlay at once, and the state has purged nothing."""
    base, rows = state.of(Source.BASE), state.rows(Source.BASE)
    if not rows or tail.rows is None or state.of([Part.PURGED, Part.LATE]):
        return False
    most_bytes = state.of(Source.SINCE).bytes + base.bytes * tail.rows / rows
    return tail.rows >= AT_ONCE_SHARE * rows and most_bytes < REBASE_SHARE * base.bytes


def _overlaid(engine: Engine, raw: RawTable, state: StateTable, tail: Tail, *, mark: Mark) -> bool:
    """Merge new facts into the overlay in one commit, without a run in between; False if no row of the base would stay."""
    sources = _known(_files(raw, state, tail), state)
    if sources.split() is None:
        return False
    digits = digits_for(state.rows(Source.SINCE) + (tail.rows or 0))
    _commit(engine, state, StateWrite(sources, state.location, Part.OVERLAY, digits, SINCE_BASE), mark=mark)
    return True


def _built(
    engine: Engine, raw: RawTable, table: DeltaTable, state: StateTable, *, why: str = "", forgetting: Forgetting
) -> Materialization:
    check_whole(raw.location, what=f"a state built from raw ({why or 'all of it, as asked for'})")
    check_not_sole(state, what=f"a state built from raw ({why or 'all of it, as asked for'})")
    memory = _state(table, raw, forgetting.memory) if forgetting.memory else state
    remembers = memory.raw_version is not None and bool(memory.of(Source.PURGED))
    if remembers and not why and memory.raw_version is not None and tail_of(table, after=memory.raw_version).files:
        # M2: read only facts whose lateness was judged; newer ones are the next tail
        table = open_delta(raw.location, version=memory.raw_version)
    rows = rows_of(table)
    parts = Parts({Part.PURGED: memory.of(Source.PURGED), Part.LATE: memory.of(Source.LATE)}) if remembers else Parts()
    sources = Sources(raw, table.version(), parts, is_raw=True)
    replaced = STORED if state.of(STORED) else frozenset[Part]()
    write = StateWrite(sources, state.location, Part.BASE, digits_for(rows), replaced, forgetting.horizon)
    _commit(engine, state, write, mark=mark_after(state.mark, table), landed=active_files(table).values())
    return Materialization(is_new=True, raw_version=table.version(), facts=rows, is_full=True, why=why)


def _commit(engine: Engine, state: StateTable, write: StateWrite, *, mark: Mark, landed: Iterable[str] = ()) -> None:
    """Commit `write`; `landed` are its files if it reads all of raw. For a base or overlay, first record its `settled_of`."""
    version, sources = state.version, write.sources
    if write.into is not Part.RUN:
        taken = sources.paths(Source.ALL if state.settled is None else Source.SINCE)
        newest = statistics_of([*taken, *landed], sources.raw.relation).newest
        version = record_settled(state.location, version, newest)
    engine.write_state(replace(write, version=version, transaction=(TRANSACTION, mark.number)))


def _merged(engine: Engine, raw: RawTable, state: StateTable, *, horizon: int | None) -> str:
    """Merge the runs if that is due; return the part that they became, for people."""
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
    name, replaced = _MERGED[due]
    if due is Part.BASE and state.of(Source.LATE):
        replaced -= {Part.LATE}  # M2: facts in quarantine stay there
    digits = digits_for(state.rows(replaced & set(Source.ALL.value)))
    write = StateWrite(sources, state.location, due, digits, replaced, horizon)
    _commit(engine, state, write, mark=mark.following())
    return name


def _due(state: StateTable) -> Part | None:
    """Return the part that runs must become now (base, overlay or one run); None if they stay as they are."""
    runs, base, since = (state.of(parts).bytes for parts in ([Part.RUN], Source.BASE, Source.SINCE))
    if since and since >= REBASE_SHARE * base:
        return Part.BASE
    if runs and base and runs >= OVERLAY_SHARE * base:
        return Part.OVERLAY
    # the mean number of files of runs that a lookup of one key reads: a run of n digits has 2^n files
    side_by_side = sum(2.0 ** (len(Part.RUN.value) - len(part_in(path))) for path in state.of([Part.RUN]).paths)
    return Part.RUN if side_by_side > MOST_RUNS else None


def digits_for(rows: int | None) -> int:
    """Return how many digits of the partition key's digest split so many facts into files; None: an unknown number."""
    if rows is None:
        return _DIGITS_OF_UNKNOWN
    return next((digits for most, digits in _DIGITS if rows <= most), _MOST_DIGITS)


def cover(raw: RawTable, location: str, *, version: int) -> None:
    """Record that a state, if there is one, covers `raw` up to `version`, so that older log entries of raw may be deleted. Raises
    `ConflictError` if newer facts landed up to that version.
    """
    newest, table = open_delta(raw.location), open_delta(raw.location, version=version)
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
    table = open_delta(raw.location)
    create_state(location, raw.relation, table)
    note_sole(location)
    # M1: any fact of raw may beat any of the state, so the state's base is only another run
    sources = at_rest(raw, before).as_runs(Source.SETTLED, tail=FileSet(tuple(active_files(table).values())))
    sources = replace(sources, raw_version=table.version())
    digits, version = digits_for(before.rows(STORED)), open_delta(location).version()
    transaction = (TRANSACTION, mark_after(None, table).number)
    engine.write_state(StateWrite(sources, location, Part.BASE, digits, version=version, transaction=transaction))
