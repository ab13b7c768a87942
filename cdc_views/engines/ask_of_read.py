"""What a `Read` asks of a plan, the same for every engine."""

from __future__ import annotations

from cdc_views.engines.base import Read
from cdc_views.model.conditions import Condition
from cdc_views.plan.build import Ask
from cdc_views.plan.where import parse_where


def ask_of(read: Read, *, leaves_out_covered: bool = False) -> Ask:
    """Return what `read` asks for, in exact form; see `Sources.split` for `leaves_out_covered`."""
    schema = read.raw.relation.shown
    return Ask(
        read.raw.relation,
        as_of=read.as_of,
        columns=read.columns,
        where=parse_where(schema, Condition(read.where)) if read.where else None,
        limit=read.limit,
        landed_as_of=read.landed_as_of,
        written_as_of=read.written_as_of,
        is_exact=True,
        is_ordered=read.is_ordered,
        is_history=read.is_history,
        split=read.sources.split(leaves_out_covered=leaves_out_covered) if read.sources is not None else None,
    )
