"""The plan of a commit of a state, and the places of its rows, for every engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from cdc_views.engines.base import Sources, StateWrite
from cdc_views.plan import names
from cdc_views.plan.compact import KEPT, PART, compact, part_of
from cdc_views.plan.nodes import Node, UnionAll
from cdc_views.plan.parts import STORED, Part, Source
from cdc_views.plan.purge import Purge, facts_in_time
from cdc_views.plan.rewrites import lowered
from cdc_views.storage.relation import Relation


def plan_of(write: StateWrite) -> UnionAll:
    """Return the lowered plan: one step per kind of fact, after the steps of rows that stay as they are."""
    relation, sources = write.sources.raw.relation, write.sources
    part = part_of(relation, prefix=write.into.value, digits=write.digits)
    purge = Purge(write.horizon, remembers=sources.parts.has(Source.PURGED)) if write.purges else None
    state = compact(relation, part=part, into=write.into, split=sources.split(), purge=purge, late=sources.late_by)
    plan = lowered(state)
    assert isinstance(plan, UnionAll), "a state's plan is a union of kinds of facts"
    return plan


def kept_and_moved(root: UnionAll) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return the steps of a state's plan: first the steps of rows that stay as they are in the base, then the others."""
    kept = tuple(part for part in root.parts if part.name.startswith(KEPT))
    return kept, tuple(part for part in root.parts if part not in kept)


def in_time(sources: Sources, *, drops_empty: bool = False) -> Node | None:
    """Return the plan of the facts of `Source.TAIL` that are in time; None if all are (rule M2)."""
    if sources.late_by is None:
        return None
    return lowered(facts_in_time(sources.raw.relation, sources.late_by, drops_empty=drops_empty))


def order_of(relation: Relation) -> tuple[str, ...]:
    """Return the sort columns of a state's rows, which keep a partition's rows together."""
    return (PART, names.KIND, *(names.identity(column) for column in relation.schema.row_key))


def name_in_state(file: str) -> str:
    """Return a file's name in the state's log, which does not depend on the state's location."""
    return "/".join(file.rsplit("/", 2)[1:])


def part_in(path: str) -> str:
    """Return the `_part` of a state's file.

    >>> part_in("state/_part=p0110/part-1.parquet")
    'p0110'
    """
    return path.rsplit("/", 2)[-2].removeprefix(f"{PART}=")


def covered_part(base: Iterable[str]) -> str:
    """Return the `_part` of the rows that list which rows of exactly these files an overlay replaces."""
    listed = "\n".join(sorted(map(name_in_state, base)))
    return Part.COVERED.value + hashlib.md5(listed.encode(), usedforsecurity=False).hexdigest()


def replaced_by(write: StateWrite) -> str | None:
    """Return the condition on the rows to replace; None if the commit replaces everything or nothing."""
    if write.replaced in (STORED, frozenset()):
        return None
    return " OR ".join(f"({_begins_with(part.value)})" for part in Part if part in write.replaced)


def _begins_with(text: str) -> str:
    """A range, because Delta compares it with the partitions of files; in LIKE, `_` would match any letter."""
    following = text[:-1] + chr(ord(text[-1]) + 1)
    return f"{PART} >= '{text}' AND {PART} < '{following}'"
