"""What a commit of a state computes, and where it puts it: the same for every engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.plan import names
from cdc_views.plan.compact import BASE, COVERED, KEPT, LATE, OVERLAY, PART, compact, part_of
from cdc_views.plan.late import facts_in_time
from cdc_views.plan.nodes import Node, UnionAll
from cdc_views.plan.purge import Purge
from cdc_views.plan.rewrites import lower, prune
from cdc_views.storage.relation import Relation


def plan_of(write: StateWrite) -> UnionAll:
    """Return the lowered plan: one part for each kind of fact, the rows that stay as they are first if there is a split."""
    relation, sources = write.sources.raw.relation, write.sources
    part = part_of(relation, prefix=write.prefix, digits=write.digits)
    purge = Purge(write.horizon, remembers=bool(sources.purged)) if write.purges else None
    state = compact(
        relation,
        part=part,
        is_base=write.is_base,
        is_overlay=write.is_overlay,
        split=sources.split,
        purge=purge,
        late=sources.late_by,
    )
    plan = prune(lower(state, strategy="aggregate"))
    assert isinstance(plan, UnionAll), "a state's plan is a union of kinds of facts"
    return plan


def kept_and_moved(root: UnionAll) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return the parts of a state's plan: rows that stay where the base has them, and the others."""
    kept = tuple(part for part in root.parts if part.name.startswith(KEPT))
    return kept, tuple(part for part in root.parts if part not in kept)


def in_time(sources: Sources, *, drops_empty: bool = False) -> Node | None:
    """Return the plan of what counts of the facts of `Source.TAIL`; None where all do (rule M2)."""
    if sources.late_by is None:
        return None
    return lower(facts_in_time(sources.raw.relation, sources.late_by, drops_empty=drops_empty), strategy="aggregate")


def order_of(relation: Relation) -> tuple[str, ...]:
    """Return the columns that rows of a state are sorted by, so that a partition's lie side by side."""
    return (PART, names.KIND, *(names.identity(column) for column in relation.schema.row_key))


def name_in_state(file: str) -> str:
    """Return how a state's log names one of its files, wherever the state is."""
    return "/".join(file.rsplit("/", 2)[1:])


def covered_part(base: Iterable[str]) -> str:
    """Return the `_part` of what says which rows of just these files an overlay stands in for."""
    listed = "\n".join(sorted(map(name_in_state, base)))
    return COVERED + hashlib.md5(listed.encode(), usedforsecurity=False).hexdigest()


def replaced_by(write: StateWrite) -> str | None:
    """Return the condition on the rows that the new ones stand in for; None for everything."""
    if not write.replaced:
        return None
    if BASE in write.replaced:
        return f"{PART} < '{LATE}'" if write.keeps_late else None
    last = COVERED if OVERLAY in write.replaced else max(write.replaced)
    return f"{PART} >= '{min(write.replaced)}' AND {PART} < '{last[:-1]}{chr(ord(last[-1]) + 1)}'"
