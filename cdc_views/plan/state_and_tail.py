"""A view's plan over the newest version of a state and the raw facts that landed since an instant.

Its text outlives the versions that it was made of: it names no files and no versions, and holds for whatever lands later. So it
reduces all facts by one group-by, as a view of raw alone does, and nothing that lands needs a case of its own. A plan that lets
untouched rows pass has twice the text, and Spark spends on it what it saves (docs/internals/spark.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.expr import Call, Expr, Lit, Moment, Op, both, col, cols, either, is_null
from cdc_views.plan.nodes import Node, Scan, Select, UnionAll, in_order, noted, rebuilt
from cdc_views.plan.parts import Part, Source
from cdc_views.plan.purge import KnownBy, facts_in_time
from cdc_views.plan.rewrites import lowered
from cdc_views.plan.walk import columns_used
from cdc_views.storage.relation import Relation

STATE, RAW = Source.BASE, Source.TAIL
"""The sources of the plan's scans: the state, all of it, and the raw table, all of it."""
_OF_STATE = "the winners of all that the state covers, in its newest version"
_OF_TAIL = "what landed since, and what has no landing time; facts that the state has as well change nothing (M1)"
_PURGED = "a fact written at or before what its partition purged came too late (M2)"


@dataclass(frozen=True, slots=True)
class StateAndTail:
    """What a view over state and tail must know of both.

    Attributes:
        since: The bound: raw facts that landed before it (µs since the epoch) are in the state. None: all of raw is read.
        overlap: How far (seconds) the bound lies before the raw commit that the state covers.
        forgets: The state has purged facts or may do so later, so late facts are left out (rule M2).
    """

    since: int | None
    overlap: int = 0
    forgets: bool = False


def over_both(plan: Node, relation: Relation, reads: StateAndTail) -> Node:
    """Return a lowered plan over a raw table as one over state and tail; its scans read `STATE` and `RAW`."""
    scans = [node for node in in_order(plan) if isinstance(node, Scan)]
    used = {column.name for scan in scans for value in scan.expressions() for column in columns_used(value)}
    kept = cols(name for name in relation.arrow_schema().names if name in used)
    stored = Scan(
        "state_facts", "fact of the state", kept, _is_in(Part.BASE, Part.PLAIN, Part.RUN), STATE, notes=noted(_OF_STATE)
    )
    facts = UnionAll("facts", "fact of state or tail", (stored, _tail(relation, reads, [name for name, _ in kept])))
    return _with_scans(plan, lambda scan: Select(scan.name, scan.grain, facts, scan.columns, scan.where))


def _tail(relation: Relation, reads: StateAndTail, used: Iterable[str]) -> Node:
    """The raw facts since the bound, without late ones."""
    since = None if reads.since is None else either(col(names.LANDED) >= Moment(reads.since), is_null(col(names.LANDED)))
    if not reads.forgets:
        return Scan("tail_facts", "raw fact", cols(used), since, RAW, notes=noted(_OF_TAIL))
    in_time = Select("tail_facts", "raw fact", facts_in_time(relation, KnownBy.PARTITION, drops_empty=False), cols(used))

    def placed(scan: Scan) -> Node:
        if scan.source is Source.TAIL:
            return replace(scan, source=RAW, where=both(since, scan.where), notes=noted(_OF_TAIL))
        return replace(scan, source=STATE, where=both(_is_in(Part.PURGED), scan.where), notes=noted(_PURGED))

    return _with_scans(lowered(in_time), placed)


def _is_in(*parts: Part) -> Expr:
    # a part is a prefix: digits of a bucket follow
    return either(*(Call(Op.LIKE, (col(PART), Lit(f"{part.value}%"))) for part in parts))


def _with_scans(root: Node, replaced: Callable[[Scan], Node]) -> Node:
    return rebuilt(root, lambda _, new: replaced(new) if isinstance(new, Scan) else new)
