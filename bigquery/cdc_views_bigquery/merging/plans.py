"""The plans of a state and of its rows as GoogleSQL: each is a query over the script's tables."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from cdc_views.plan import names
from cdc_views.plan.build import Ask, Tells, build, output_names
from cdc_views.plan.compact import Step, compact
from cdc_views.plan.expr import Call, Op
from cdc_views.plan.nodes import Node
from cdc_views.plan.order import LIFT, SHIFT
from cdc_views.plan.parts import Source
from cdc_views.plan.purge import KnownBy, Purge, facts_in_time, late_facts
from cdc_views.plan.rewrites import lowered
from cdc_views.plan.serving import CHANGES_AT
from cdc_views.sql.dialects.bigquery import BigQueryState, bucket_of
from cdc_views.sql.dialects.writing import Sql, identifier, number
from cdc_views.sql.render import Renderer
from cdc_views.storage.relation import Relation
from cdc_views.storage.shown_relation import casts_of
from cdc_views_bigquery.merging.arrays import stored, total
from cdc_views_bigquery.merging.columns import (
    FACT,
    LEFT_OUT,
    OWNER,
    PART,
    ROW,
    Column,
    fact_of,
    leaves_out,
    owner_of,
    raw_columns,
    row_of,
    shown_columns,
)
from cdc_views_bigquery.merging.tables import Merging

TAIL, COUNTED, FACTS, ROWS = "_tail", "_counted", "_facts", "_rows"
"""Temporary tables of a script: the tail, its facts that count, these with the state's facts that they touch, rows to serve."""
CLOCK, HORIZON = "_clock", "_horizon"
"""Variables of a script, in seconds since the epoch."""
_OF_EVENTS = ("_origin", names.LANDED)
"""Columns of the raw layout that are null in a state: a winner may have landed many times."""


def identified(relation: Relation, merging: Merging, *, source: str, also: tuple[str, ...] = (), is_reduced: bool = False) -> str:
    """Return the query of the facts in `source`, which follows FROM, with the columns that identify a fact in a state.

    `also` are further columns of the source; if it `is_reduced`, columns that only events have become null.
    """
    kept = [_kept(column, is_reduced=is_reduced) for column in raw_columns(relation)]
    kept += [exp.column(identifier(name)) for name in also]
    known = [exp.alias_(owner_of(relation), identifier(OWNER)), exp.alias_(fact_of(relation), identifier(FACT))]
    inner = exp.select(*kept, *known).from_(BigQueryState(relation.schema).table(source), copy=False)
    return _text(_bucketed(inner, merging), merging)


def _kept(column: Column, *, is_reduced: bool) -> Sql:
    if not (is_reduced and column.name in _OF_EVENTS):
        return exp.column(identifier(column.name))
    null = exp.cast(exp.Null(), exp.DataType.build(column.type, dialect="bigquery"))
    return exp.alias_(null, identifier(column.name))


def _bucketed(inner: exp.Select, merging: Merging) -> exp.Select:
    columns = [exp.column(identifier(name)) for name in inner.named_selects]
    bucket = bucket_of(exp.column(identifier(OWNER)), merging.buckets)
    known = inner.subquery(identifier("_known"), copy=False)
    return exp.select(*columns, exp.alias_(bucket, identifier(PART))).from_(known, copy=False)


def state_query(relation: Relation, merging: Merging) -> str:
    """Return the query that compacts the facts of `_facts`; `_part` has no meaning yet."""
    return _compacted(relation, merging, facts=FACTS, step=Step.RUN)


def settled_query(relation: Relation, merging: Merging) -> str:
    """Return the query of the whole state, with deletions applied and without what ended before the script's horizon."""
    purge = Purge(Call(Op.NOW), remembers=True) if merging.lateness is not None else None
    return _compacted(relation, merging, facts=merging.state, step=Step.BASE, purge=purge)


def _compacted(relation: Relation, merging: Merging, *, facts: str, step: Step, purge: Purge | None = None) -> str:
    plan = compact(relation, digits=0, step=step, purge=purge)
    return _rendered(plan, relation, merging, {Source.ALL: facts, Source.PURGED: facts}, clock=HORIZON)


def in_time_query(relation: Relation, merging: Merging, *, tail: str, purged: str) -> str:
    """Return the query of those facts of `tail` that count (rule M2)."""
    plan = facts_in_time(relation, KnownBy.PARTITION, drops_empty=True)
    return _rendered(plan, relation, merging, {Source.TAIL: tail, Source.PURGED: purged})


def known_in_time_query(relation: Relation, merging: Merging, *, tail: str, late: str) -> str:
    """Return the query of the facts of `tail`, here all of raw, without the parts that were found late."""
    plan = facts_in_time(relation, KnownBy.EVENT, drops_empty=True)
    return _rendered(plan, relation, merging, {Source.TAIL: tail, Source.LATE: late})


def late_query(relation: Relation, merging: Merging, *, tail: str, purged: str) -> str:
    """Return the query of the late parts of the facts of `tail`."""
    return _rendered(late_facts(relation, KnownBy.PARTITION), relation, merging, {Source.TAIL: tail, Source.PURGED: purged})


def rows_query(relation: Relation, merging: Merging, *, facts: str) -> str:
    """Return the query of a serving table's rows over the facts of whole partitions, at the script's clock."""
    ask = Ask(relation, tells=Tells.EXPIRY | Tells.IDENTITY)
    dialect = BigQueryState(relation.schema, clock=CLOCK)
    dialect.holds_any_field = False
    inner = Renderer(dialect, table=facts).query(lowered(build(ask)))
    outputs, casts = dict(output_names(ask)), casts_of(relation)
    shown: list[Sql] = []
    left_out: dict[str, list[Sql]] = {}
    for name, column in shown_columns(relation):
        value, nulls = stored(exp.column(identifier(outputs[name])), relation.schema.column(name).type)
        left_out[name] = nulls
        shown.append(exp.alias_(exp.cast(value, casts[name]) if name in casts else value, identifier(column.name)))
    ours = {CHANGES_AT: _changes_at(), OWNER: owner_of(relation), ROW: row_of(relation)}
    if leaves_out(relation):
        ours[LEFT_OUT] = total([one for column in relation.schema.columns for one in left_out[column.name]])
    shown += [exp.alias_(value, identifier(name)) for name, value in ours.items()]
    known = exp.select(*shown).from_(inner.subquery(identifier("_shown"), copy=False), copy=False)
    return _text(_bucketed(known, merging), merging)


def _changes_at() -> Sql:
    """Return epoch seconds from `plan.order`'s negated rank: adding 2^63 in two steps avoids overflow; `>>` fills with zeros."""
    rank = exp.Neg(this=exp.column(identifier(names.SOONEST)))
    lifted = exp.Add(this=exp.Add(this=rank, expression=number((1 << 63) - 1)), expression=number(1))
    assert LIFT << SHIFT == 1 << 63
    return exp.BitwiseRightShift(this=exp.paren(lifted), expression=number(SHIFT))


def _rendered(plan: Node, relation: Relation, merging: Merging, tables: Mapping[Source, str], *, clock: str = "") -> str:
    some = next(iter(tables.values()))
    renderer = Renderer(BigQueryState(relation.schema, clock=clock), table=some, tables=tables)
    return _text(renderer.query(lowered(plan)), merging)


def _text(query: Sql, merging: Merging) -> str:
    is_read = not merging.is_dense
    return query.sql(dialect="bigquery", copy=False, pretty=is_read, max_text_width=110, comments=is_read)
