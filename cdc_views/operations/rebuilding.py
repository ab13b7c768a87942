"""`rebuild`: builds a state from scratch beside the current one, compares the two, and switches to the new one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone

from cdc_views.engines.base import Engine, Sources
from cdc_views.errors import TransientError
from cdc_views.landing.raw_table import create_raw, is_delta
from cdc_views.operations.answers import Side, compare_sides
from cdc_views.operations.applying import Changed, refresh_view
from cdc_views.operations.catalogs import begun
from cdc_views.operations.comparing import Comparison
from cdc_views.operations.context import TableContext
from cdc_views.operations.ingest import adapted_as_it_is, landed
from cdc_views.operations.known_raw import remember
from cdc_views.operations.lateness import forgetting_of
from cdc_views.operations.renewing import renewed
from cdc_views.plan.parts import STORED, Source
from cdc_views.state import materialize, sources_of
from cdc_views.state.identity import RawMismatchError
from cdc_views.state.run import at_rest, build_with_state, sources_with
from cdc_views.state.state_table import StateTable, check_not_sole, checked, is_built, open_state
from cdc_views.state.tail import check_whole
from cdc_views.storage.table_log import TableLog


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A new generation of a state, compared with the one `before`, and whether reads use it; `late` facts landed too late."""

    generation: int
    before: int
    comparison: Comparison
    is_switched: bool
    late: int = 0


def rebuild_table(
    table: TableContext, *, engine: str | None, accept: bool, dry_run: bool, with_late: bool = False, with_state: bool = False
) -> Rebuilt:
    """Build a new generation of the table's state from raw, compare, and switch to it if nothing differs.

    Args:
        table: The table.
        engine: Where to run; default: the project's engine.
        accept: Switch even if rows differ. Also accept another raw table from then on, or an empty one for a missing one.
        dry_run: Do not switch; delete the new generation.
        with_late: Include facts that landed too late (rule M2): build from all of raw, which also has everything purged.
        with_state: Include the facts of the old state, if raw has fewer than before.

    Raises:
        RawMismatchError: The raw table is gone or is not the one seen last, and `accept` is not set.
        StateChangedError: Somebody else changed the rows of the state that `with_state` includes.
        UsageError: Events were dropped from raw, and `with_state` is not set.
    """
    table = renewed(table)
    _check_raw(table, accept=accept, dry_run=dry_run)
    generations = table.generations
    before, number = generations.current, generations.following
    old = _state(table, generations.location(before))
    if old is not None and ((old.mismatch and not (accept or dry_run)) or (old.changed and with_state)):
        checked(old, TableLog.open(table.raw.location))
    if not with_state:
        check_whole(table.raw.location, what="a state built from raw")
        check_not_sole(None if accept else old, what="a state built from raw")
    with table.project.engine(engine) as opened:
        late = _build(table, opened, old, generations.location(number), with_late=with_late, with_state=with_state)
        comparison = _compared(table, opened, old, after=generations.location(number))
    is_switched = not dry_run and (accept or comparison.is_equal)
    if is_switched:
        generations.switch(number)
        remember(table, accepts=accept)  # only now: a rebuild that does not switch accepts nothing
        refresh_view(table, Changed.RAW | Changed.STATE)
    else:
        generations.remove(number)
    return Rebuilt(number, before, comparison, is_switched, late)


def _check_raw(table: TableContext, *, accept: bool, dry_run: bool) -> None:
    """Check that there is a raw table to build from: the one seen last, or one that the caller accepts."""
    if accept and not dry_run:
        begun(table, accepts=True)
    try:
        landed(table)
    except RawMismatchError:
        is_there = is_delta(table.location)
        if not (accept or dry_run) or (not is_there and (dry_run or table.is_external)):
            raise
        if not is_there:
            create_raw(table.raw, format_name=table.format.name)
        if accept:
            adapted_as_it_is(table)


def _state(table: TableContext, location: str) -> StateTable | None:
    """Return the state even if it does not belong to the raw table."""
    raw = TableLog.open(table.raw.location)
    found = open_state(location, table.relation, raw=raw)
    return found if found is not None and (found.mark or found.of(STORED)) else None


def _build(
    table: TableContext, engine: Engine, old: StateTable | None, location: str, *, with_late: bool, with_state: bool
) -> int:
    """Build the new generation; returns how many facts, found during the build, landed too late."""
    if with_state and old is not None:
        build_with_state(engine, table.raw, old, location)
        return 0
    forgetting, late = forgetting_of(table), 0
    if old is not None and old.of(Source.PURGED) and old.is_believed and not with_late:
        # the old memory of purges judges new facts; the new generation takes over their result and the memory
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
        refresh_view(table, Changed.RAW | Changed.STATE)
    return number


def _compared(table: TableContext, engine: Engine, old: StateTable | None, *, after: str) -> Comparison:
    """Read both at the same version of raw and the same instant, and compare. Without an old state, reads used raw, so raw takes
    its place. A state that is not believed is compared as it is.
    """
    clock = int(datetime.now(timezone.utc).timestamp())
    for _ in range(10):
        new = sources_of(table.raw, after)
        assert new is not None
        before = _before(table, old) or Sources(table.raw, new.raw_version, is_raw=True)
        if (old is not None and old.mismatch) or before.raw_version == new.raw_version:
            return compare_sides(Side(engine, before, clock), Side(engine, new, clock))
    raise TransientError(f"{table.name}: events land faster than two states can be looked at; run the command again")


def _before(table: TableContext, old: StateTable | None) -> Sources | None:
    if old is None:
        return None
    if old.mismatch or old.is_earlier:
        return at_rest(table.raw, old)
    return sources_with(table.raw, TableLog.open(table.raw.location), old) if old.changed else sources_of(table.raw, old.location)
