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
from cdc_views.plan.parts import STORED, FileSet, Part, Parts
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


def serve(engine: Engine, raw: RawTable, state: str, location: str, *, now: int, full: bool = False) -> Served:
    """Make the serving table at `location` show what the state shows at `now`; safe to run twice, at once, or after a kill.

    `now` is the clock of rule C4 in epoch seconds. The table never goes back in time: the last clock is the least. `full`
    rewrites all of it.

    Raises `UsageError` if there is no state or something else is at `location`, and `ConflictError` if other runs kept
    committing first.
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
    clock, digits = (max(now, serving.note.clock), serving.note.digits) if serving.note else (now, 0)
    note, finest = Note(clock, setting_of(raw.relation), state_id, digits), digits_for(state.rows(STORED))
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
    """Why all of the table must be written; empty if some buckets will do."""
    if serving.raw_version is None:
        return "it held nothing of this state"
    if why := why_changed(serving.location, serving.version, ours=OURS):
        return why
    if serving.note is None:
        return "nobody knows as of when it is"
    if serving.note.state != note.state:
        # `rebuild --back`: this state was served before another one, and its mark is still in the log
        return "the state is another one"
    if serving.note.setting != note.setting:
        return "the schema, or what columns are shown as, changed"
    return "it grew and gets more buckets" if finest > serving.note.digits else ""


def _due(engine: Engine, raw: RawTable, table: DeltaTable, serving: ServingTable, note: Note) -> tuple[tuple[str, ...], str]:
    """The buckets of facts that landed since the table's raw version, or expired since its clock; or why all are due."""
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
    """Return `sources` without the state's files outside of these buckets; no `parts`: all of it."""
    return in_buckets(sources, (part[1:] for part in parts)) if parts else sources
