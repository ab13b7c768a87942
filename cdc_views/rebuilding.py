"""`rebuild`: a state made from scratch beside the one that is read, compared with it, and switched to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from cdc_views.comparing import Comparison, compare
from cdc_views.engines.base import Engine, Read, Sources
from cdc_views.errors import TransientError
from cdc_views.lateness import forgetting_of, has_purged
from cdc_views.materialize import materialize, sources_of
from cdc_views.raw_places import check_landed, generations_of

if TYPE_CHECKING:
    from cdc_views.table import Table

_LOOKS = 10


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


def rebuild_table(table: Table, *, engine: str | None, accept: bool, dry_run: bool, with_late: bool = False) -> Rebuilt:
    """Build a new generation of the table's state from raw, compare, and switch to it where nothing differs.

    Args:
        table: Whose state.
        engine: Where to run; default: the project's engine.
        accept: Switch although rows differ.
        dry_run: Do not switch; the new generation is deleted.
        with_late: Let count what landed too late (rule M2): all of raw decides, which has what was purged as well.
    """
    from cdc_views.retention import check_raw_is_whole

    check_landed(table)
    check_raw_is_whole(table, what="a state built from raw")
    generations = generations_of(table)
    before, number = generations.current, generations.following
    forgetting, old = forgetting_of(table), generations.location(before)
    late = 0
    with table.project.engine(engine) as opened:
        if has_purged(table) and not with_late:
            # what landed since is judged by what was purged until now, and both go over to the new generation
            late = materialize(opened, table.raw, old, forgetting=forgetting).late
            forgetting = replace(forgetting, memory=old)
        materialize(opened, table.raw, generations.location(number), full=True, forgetting=forgetting)
        comparison = _compared(table, opened, before=old, after=generations.location(number))
    is_switched = not dry_run and (accept or comparison.is_equal)
    if is_switched:
        generations.switch(number)
    else:
        generations.remove(number)
    return Rebuilt(number, before, comparison, is_switched, late)


def switch_back(table: Table) -> int:
    """Read the generation before the current one again; returns its number."""
    generations = generations_of(table)
    number = generations.previous
    generations.switch(number)
    return number


def _compared(table: Table, engine: Engine, *, before: str, after: str) -> Comparison:
    """Both at the same version of raw and the same instant; without a state before, raw is what was read."""
    clock = int(datetime.now(timezone.utc).timestamp())
    for _ in range(_LOOKS):
        new, old = sources_of(table.raw, after), sources_of(table.raw, before)
        assert new is not None
        if old is None or old.raw_version == new.raw_version:
            answers = [engine.read(_read(table, sources, clock)) for sources in (old or _raw(table, new), new)]
            return compare(table.relation, *answers)
    raise TransientError(f"{table.name}: events land faster than two states can be looked at; run the command again")


def _raw(table: Table, like: Sources) -> Sources:
    return Sources(table.raw, like.raw_version, is_raw=True)


def _read(table: Table, sources: Sources, clock: int) -> Read:
    return Read(table.raw, clock, sources=sources)
