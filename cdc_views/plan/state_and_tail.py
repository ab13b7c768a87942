"""A view's plan over the newest version of a state and the raw facts that landed since an instant.

Its text outlives the versions that it was made of. So it names no files and no versions, and holds for whatever lands later:
nothing is known of its facts (`parts.UNKNOWN`). Raw facts that the state has, too, change nothing (rule M1), so the instant may
be too early, but never too late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdc_views.plan import names
from cdc_views.plan.compact import PART
from cdc_views.plan.expr import Call, Expr, Lit, Moment, Op, both, col, cols, columns_used, either, is_null
from cdc_views.plan.nodes import Node, Scan, Select, UnionAll, in_order
from cdc_views.plan.parts import UNKNOWN, FileSet, Part, Parts, Source
from cdc_views.plan.purge import KnownBy, facts_in_time
from cdc_views.plan.rewrites import lowered
from cdc_views.storage.relation import Relation

STATE, RAW = Source.BASE, Source.TAIL
"""The sources of the plan's scans: the table of the state, and the raw table."""
_TAIL = "raw facts may be in the state, too: reducing a fact twice changes nothing (M1), missing one would"


@dataclass(frozen=True, slots=True)
class StateAndTail:
    """What a view reads besides the raw table.

    Attributes:
        since: Raw facts that landed before it (µs since the epoch) are in the state; None: all of raw is read.
        forgets: The state may purge facts, now or later, so that late facts must be left out (rule M2).
        judges_all: No row of the base shows without being judged (`Part.PLAIN`): a column was dropped.
    """

    since: int | None
    forgets: bool = False
    judges_all: bool = False

    @property
    def split(self) -> Parts:
        """The parts that the plan must expect."""
        stored = (Part.BASE, Part.RUN, Part.TAIL) if self.judges_all else (Part.BASE, Part.PLAIN, Part.RUN, Part.TAIL)
        return Parts({part: FileSet((part.value,), rows=None, statistics=UNKNOWN) for part in stored})


def over_both(plan: Node, relation: Relation, what: StateAndTail) -> Node:
    """Return a lowered plan whose scans read the parts of a state and its tail, as one whose scans read `STATE` and `RAW`."""
    ordered = in_order(plan)
    facts: Node | None = None
    if mixed := [node for node in ordered if isinstance(node, Scan) and Part.TAIL in node.source.value]:
        used = {column.name for scan in mixed for value in scan.expressions() for column in columns_used(value)}
        facts = _facts(relation, what, [name for name in relation.arrow_schema().names if name in used])
    done: dict[int, Node] = {}
    for node in ordered:
        if isinstance(node, Scan):
            done[id(node)] = _scan(node, facts, what)
        else:
            done[id(node)] = node.over(tuple(done[id(source)] for source in node.sources()))
    return done[id(plan)]


def _scan(scan: Scan, facts: Node | None, what: StateAndTail) -> Node:
    judged = Source.BASE if what.judges_all and scan.source is Source.JUDGED else scan.source
    where = both(_is_in(judged.value), scan.where)
    if facts is not None and Part.TAIL in scan.source.value:
        return Select(scan.name, scan.grain, facts, scan.columns, where)
    return replace(scan, source=STATE, where=where)


def _is_in(parts: Iterable[Part]) -> Expr:
    return either(*(Call(Op.LIKE, (col(PART), Lit(f"{part.value}%"))) for part in parts))


def _facts(relation: Relation, what: StateAndTail, used: list[str]) -> Node:
    """All facts of state and tail, with their parts; filters on `PART` reach the scans."""
    stored = Scan("state_facts", "fact of the state", cols((*used, PART)), None, STATE)
    tail = _tail(relation, what, used)
    landed = Select("tail_facts", tail.grain, tail, (*cols(used), (PART, Lit(Part.TAIL.value))))
    return UnionAll("facts", "fact of state or tail", (stored, landed))


def _tail(relation: Relation, what: StateAndTail, used: list[str]) -> Node:
    """The raw facts since the instant, without what is late."""
    since = None if what.since is None else either(col(names.LANDED) >= Moment(what.since), is_null(col(names.LANDED)))
    if not what.forgets:
        return Scan("landed_since", "raw fact", cols(used), since, RAW, note=_TAIL)
    judged = facts_in_time(relation, KnownBy.PARTITION, drops_empty=False)
    kept = Select("facts_in_time_used", "raw fact", judged, cols(used))
    plan = lowered(kept)
    done: dict[int, Node] = {}
    for node in in_order(plan):
        if not isinstance(node, Scan):
            done[id(node)] = node.over(tuple(done[id(source)] for source in node.sources()))
        elif node.source is Source.TAIL:
            done[id(node)] = replace(node, source=RAW, where=both(since, node.where), note=_TAIL)
        else:
            done[id(node)] = replace(node, source=STATE, where=both(_is_in([Part.PURGED]), node.where))
    return done[id(plan)]
