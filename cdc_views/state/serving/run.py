"""Bring a serving table up to date with its state: rewrite the buckets in which something landed or expired, no others.

A run does not read the table's rows. It finds the buckets of new raw events, and in Delta's log the buckets with a row that
expired, and computes the rows of those buckets from the state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltalake import DeltaTable

from cdc_views.engines.base import Engine, Sources
from cdc_views.engines.serving import ServingWrite
from cdc_views.errors import UsageError
from cdc_views.landing.delta import open_delta
from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.parts import STORED, FileSet, Part, Parts, Source
from cdc_views.plan.serving import touched_buckets
from cdc_views.rules.facts import FactKind
from cdc_views.state.buckets import in_buckets
from cdc_views.state.run import at_rest, digits_for
from cdc_views.state.serving.table import OURS, Note, ServingTable, create_serving, open_serving, setting_of, transaction_name
from cdc_views.state.state_table import checked, id_of, open_state
from cdc_views.state.tail import tail_of
from cdc_views.state.taking import why_changed
from cdc_views.storage.conflicts import retried
from cdc_views.storage.relation import RawTable


@dataclass(frozen=True, slots=True)
class Served:
    """What one call did to a serving table.

    Attributes:
        is_new: Whether anything was written.
        raw_version: The version of the raw table that the rows show.
        clock: The epoch second that the rows written last show.
        rows: Rows in the table now.
        buckets: How many buckets were written; 0 if the whole table was.
        why: Why the whole table was written; empty if it was not.
    """

    is_new: bool
    raw_version: int
    clock: int
    rows: int
    buckets: int = 0
    why: str = ""

    def line(self) -> str:
        """One line for people."""
        if not self.is_new:
            return f"serving table is up to date: {self.rows:,} rows"
        what = f"written ({self.why})" if self.why else f"brought up to date in {self.buckets:,} buckets"
        return f"serving table {what}: {self.rows:,} rows"


@dataclass(frozen=True, slots=True)
class _Due:
    """What to write: some buckets, or everything (`why` has the reason)."""

    parts: tuple[str, ...] = ()
    why: str = ""


def serve(engine: Engine, raw: RawTable, state: str, location: str, *, now: int, full: bool = False) -> Served:
    """Make the serving table at `location` show what the state shows at `now`; safe to run twice, at once, or after a kill.

    Args:
        engine: The engine that computes rows.
        raw: The raw table of the state.
        state: The location of the state, which exists.
        location: The location of the serving table, made if it does not exist.
        now: The clock of rule C4, epoch seconds. The table never goes back in time: the last clock is the least.
        full: Rewrite all of it.

    Raises:
        UsageError: There is no state, or something else is at `location`.
        ConflictError: Other runs kept committing first.
    """
    create_serving(location, raw.relation)
    return retried(
        lambda: _attempt(engine, raw, state, location, now=now, full=full),
        what=f"{location}: other runs keep committing first; run the command again",
    )


def _attempt(engine: Engine, raw: RawTable, state_location: str, location: str, *, now: int, full: bool) -> Served:
    table = open_delta(raw.location)
    state = checked(open_state(state_location, raw.relation, raw=table), table)
    if state is None or state.mark is None:
        raise UsageError(f"{state_location}: there is no state to serve rows from; run `cdc-views materialize`")
    state_id = id_of(state.location)
    serving = open_serving(location, raw.relation, state_id=state_id)
    note = _note(serving, raw, state_id, now=now)
    finest = digits_for(state.rows(STORED))
    due = _Due(why="as asked for") if full else _due(engine, raw, table, serving, note=note, finest=finest)
    if not due.parts and not due.why:
        assert serving.raw_version is not None
        return Served(is_new=False, raw_version=serving.raw_version, clock=note.clock, rows=serving.rows)
    if due.why:
        note = replace(note, digits=finest)
    is_again = serving.mark is not None and serving.mark.version >= state.mark.version
    mark = serving.mark.following() if serving.mark and is_again else replace(state.mark, step=0)
    write = ServingWrite(
        of_buckets(at_rest(raw, state), due.parts),
        note.clock,
        location,
        serving.version,
        note.digits,
        due.parts,
        (transaction_name(state_id), mark.number),
        note.text(),
    )
    engine.write_serving(write)
    rows = open_serving(location, raw.relation, state_id=state_id).rows
    return Served(is_new=True, raw_version=state.mark.version, clock=note.clock, rows=rows, buckets=len(due.parts), why=due.why)


def _note(serving: ServingTable, raw: RawTable, state_id: str, *, now: int) -> Note:
    """The note of the next commit."""
    clock, digits = (max(now, serving.note.clock), serving.note.digits) if serving.note else (now, 0)
    return Note(clock, setting_of(raw.relation), state_id, digits)


def _due(engine: Engine, raw: RawTable, table: DeltaTable, serving: ServingTable, *, note: Note, finest: int) -> _Due:
    """The buckets of facts that landed since the table's raw version, or expired since its clock."""
    if serving.raw_version is None:
        return _Due(why="it held nothing of this state")
    if why := why_changed(serving.location, serving.version, ours=OURS):
        return _Due(why=why)
    if serving.note is None:
        return _Due(why="nobody knows as of when it is")
    if serving.note.state != note.state:
        # `rebuild --back`: this state was served before another one, and its mark is still in the log
        return _Due(why="the state is another one")
    if serving.note.setting != note.setting:
        return _Due(why="the schema, or what columns are shown as, changed")
    if finest > serving.note.digits:
        return _Due(why="it grew and gets more buckets")
    tail = tail_of(table, after=serving.raw_version)
    if tail.rebuild:
        return _Due(why=tail.rebuild)
    landed = _landed(engine, Sources(raw, tail.version, Parts({Part.TAIL: FileSet(tail.files)})), digits=note.digits)
    if landed is None:
        return _Due(why="the table was truncated")
    return _Due(tuple(sorted(landed | serving.expired(note.clock))))


def _landed(engine: Engine, tail: Sources, *, digits: int) -> set[str] | None:
    """The buckets of new events; None for all buckets, after a truncate (S6)."""
    if not tail.parts.has(Source.TAIL):
        return set()
    found = engine.rows(touched_buckets(tail.raw.relation, digits=digits), tail)
    if FactKind.TABLE.value in found.column(names.KIND).to_pylist():
        return None
    return set(found.column(PART).to_pylist())


def of_buckets(sources: Sources, parts: tuple[str, ...]) -> Sources:
    """Return `sources` without the state's files outside of these buckets; no `parts`: all of it."""
    return in_buckets(sources, (part[1:] for part in parts)) if parts else sources
