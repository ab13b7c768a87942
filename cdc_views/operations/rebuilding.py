"""`rebuild`: a state made from scratch beside the one that is read, compared with it, and switched to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone

from cdc_views.engines.base import Engine, Read, Sources
from cdc_views.errors import TransientError
from cdc_views.landing.delta import open_delta
from cdc_views.landing.raw_table import create_raw, is_delta
from cdc_views.operations.comparing import Comparison, compare
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import adapted_as_it_is, check_landed
from cdc_views.operations.known_raw import remember
from cdc_views.operations.lateness import forgetting_of
from cdc_views.plan.parts import STORED, Source
from cdc_views.state import materialize, sources_of
from cdc_views.state.identity import RawMismatchError
from cdc_views.state.run import at_rest, build_with_state, sources_with
from cdc_views.state.state_table import StateTable, check_not_sole, checked, is_built, open_state
from cdc_views.state.tail import check_whole


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A new generation of a state, how it compares with what was read until then, and whether it is read now.

    `late` facts were found on the way to have landed too late (rule M2).
    """

    generation: int
    before: int
    comparison: Comparison
    is_switched: bool
    late: int = 0


def rebuild_table(
    table: TableContext, *, engine: str | None, accept: bool, dry_run: bool, with_late: bool = False, with_state: bool = False
) -> Rebuilt:
    """Build a new generation of the table's state from raw, compare, and switch to it where nothing differs.

    Args:
        table: Whose state.
        engine: Where to run; default: the project's engine.
        accept: Switch although rows differ, or although the raw table is not the one known: it is from then on. One that
            is gone begins anew, empty.
        dry_run: Do not switch; the new generation is deleted.
        with_late: Let count what landed too late (rule M2): all of raw decides, which has what was purged as well.
        with_state: Let count what the state before holds, too, where raw has less than was seen.

    Raises:
        RawMismatchError: The raw table is gone or not the one known, and nobody accepts it.
        StateChangedError: Somebody else changed the rows of the state, which are to count.
        UsageError: Raw lacks events that were dropped from it, and the state is not to count.
    """
    _check_raw(table, accept=accept, dry_run=dry_run)
    generations = table.generations
    before, number = generations.current, generations.following
    old = _state(table, generations.location(before))
    if old is not None and ((old.mismatch and not (accept or dry_run)) or (old.changed and with_state)):
        checked(old, open_delta(table.raw.location))
    if not with_state:
        check_whole(table.raw.location, what="a state built from raw")
        check_not_sole(None if accept else old, what="a state built from raw")
    with table.project.engine(engine) as opened:
        late = _build(table, opened, old, generations.location(number), with_late=with_late, with_state=with_state)
        comparison = _compared(table, opened, old, after=generations.location(number))
    is_switched = not dry_run and (accept or comparison.is_equal)
    if is_switched:
        generations.switch(number)
        remember(table, accepts=accept)  # not before: a rebuild that is refused accepts nothing
    else:
        generations.remove(number)
    return Rebuilt(number, before, comparison, is_switched, late)


def _check_raw(table: TableContext, *, accept: bool, dry_run: bool) -> None:
    """See that there is a raw table to build from, the one known, or one that is accepted in its place."""
    try:
        check_landed(table)
    except RawMismatchError:
        is_there = is_delta(table.location)
        if not (accept or dry_run) or (not is_there and (dry_run or table.is_external)):
            raise
        if not is_there:
            create_raw(table.raw, format_name=table.format.name)
        if accept:
            adapted_as_it_is(table)


def _state(table: TableContext, location: str) -> StateTable | None:
    """The state as it is, whether or not it belongs to the raw table."""
    raw = open_delta(table.raw.location)
    found = open_state(location, table.relation, raw=raw)
    return found if found is not None and (found.mark or found.of(STORED)) else None


def _build(
    table: TableContext, engine: Engine, old: StateTable | None, location: str, *, with_late: bool, with_state: bool
) -> int:
    """Build the new generation; returns how many facts were found on the way to have landed too late."""
    if with_state and old is not None:
        build_with_state(engine, table.raw, old, location)
        return 0
    forgetting, late = forgetting_of(table), 0
    if old is not None and old.of(Source.PURGED) and old.is_believed and not with_late:
        # what landed since is judged by what was purged until now, and both go over to the new generation
        late = materialize(engine, table.raw, old.location, forgetting=forgetting).late
        forgetting = replace(forgetting, memory=old.location)
    materialize(engine, table.raw, location, full=True, forgetting=forgetting)
    return late


def switch_back(table: TableContext) -> int:
    """Read the newest complete generation before the current one again; returns its number."""
    generations = table.generations
    number = generations.previous(is_built)
    generations.switch(number)
    if is_delta(table.raw.location) and (state := _state(table, generations.location(number))) and state.is_believed:
        remember(table, accepts=True)
    return number


def _compared(table: TableContext, engine: Engine, old: StateTable | None, *, after: str) -> Comparison:
    """Both at the same version of raw and the same instant.

    Without a state before, raw is what was read. A state that is not believed is compared as it is.
    """
    clock = int(datetime.now(timezone.utc).timestamp())
    for _ in range(10):
        new = sources_of(table.raw, after)
        assert new is not None
        before = _before(table, old) or Sources(table.raw, new.raw_version, is_raw=True)
        if (old is not None and old.mismatch) or before.raw_version == new.raw_version:
            answers = [engine.read(Read(table.raw, clock, sources=sources)) for sources in (before, new)]
            return compare(table.relation, *answers)
    raise TransientError(f"{table.name}: events land faster than two states can be looked at; run the command again")


def _before(table: TableContext, old: StateTable | None) -> Sources | None:
    if old is None:
        return None
    if old.mismatch or old.is_earlier:
        return at_rest(table.raw, old)
    return sources_with(table.raw, open_delta(table.raw.location), old) if old.changed else sources_of(table.raw, old.location)
