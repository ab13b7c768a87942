"""Facts of a state → the rows of a serving table: a view's rows at one instant, with the time when expiry next changes them.

The rows of a bucket depend only on the facts of that bucket and on truncates. So a run computes only the buckets in which
something landed or expired.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc_views.model.naming import held_name, physical_name
from cdc_views.model.schema import TableSchema
from cdc_views.plan import names
from cdc_views.plan.build import Ask, Tells, build, output_names
from cdc_views.plan.compact import PART, part_of
from cdc_views.plan.expr import Call, Expr, Lit, Op, col
from cdc_views.plan.nodes import Aggregate, Node, Select
from cdc_views.plan.parts import Parts
from cdc_views.plan.reduction import Reduction
from cdc_views.rules.facts import FactKind
from cdc_views.storage.relation import Relation

CHANGES_AT = "_changes_at"
"""The epoch second at which expiry next changes a row; null: never."""
PREFIX = "s"
"""The prefix of a bucket's name: an empty name would be null in a partition column."""


def serving_rows(relation: Relation, *, as_of: int, digits: int, parts: tuple[str, ...], split: Parts | None) -> Node:
    """Return the plan of the rows in the buckets `parts` (empty: all); `names.SOONEST` is in place of `_changes_at`."""
    part = part_of(relation, prefix=PREFIX, digits=digits)
    ask = Ask(relation, as_of=as_of, split=split, tells=Tells.EXPIRY)
    shown = serving_names(relation.schema)
    columns = [(shown[name], col(output)) for name, output in output_names(ask)]
    wanted: Expr | None = Call(Op.IN, (part, *map(Lit, parts))) if parts else None
    kept = (*columns, (names.SOONEST, col(names.SOONEST)), (PART, part))
    return Select("serving_rows", "visible row", build(ask), kept, wanted)


def touched_buckets(relation: Relation, *, digits: int) -> Node:
    """Return the plan of the distinct pairs of kind of fact and bucket."""
    part = part_of(relation, prefix=PREFIX, digits=digits)
    facts = Reduction(relation).scan("facts_since", kinds=list(FactKind), columns=((names.KIND, col(names.KIND)), (PART, part)))
    return Aggregate("touched_buckets", "kind of fact and bucket", facts, (names.KIND, PART), ())


def serving_names(schema: TableSchema) -> Mapping[str, str]:
    """Return a serving table's column for each user name: encoded if Delta forbids the name, or another differs only in case."""
    held = [held_name(column.name).casefold() for column in schema.columns]
    return {
        column.name: held_name(column.name) if held.count(name) == 1 else physical_name(column.name)
        for column, name in zip(schema.columns, held, strict=True)
    }
