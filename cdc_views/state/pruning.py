"""The files of a state that may match a condition on the partition key."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from cdc_views.engines.base import Sources
from cdc_views.engines.buckets import in_buckets
from cdc_views.engines.state_plan import digest
from cdc_views.model.conditions import Condition
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.plan.compact import is_bytes
from cdc_views.plan.where import on_partition, parse_where
from cdc_views.rules.codec.physical import arrow_type


def pruned(sources: Sources, where: str) -> Sources:
    """Return `sources` without the state's files that a condition in DuckDB's SQL rules out."""
    key = one_partition(sources.raw.relation.shown, where)
    return sources if key is None else in_buckets(sources, [digest(*key)])


def one_partition(schema: TableSchema, where: str) -> tuple[str, ...] | None:
    """Return the texts of the one partition key that `where` allows by `column = literal` (whole numbers, texts); else None."""
    condition = on_partition(schema, parse_where(schema, Condition(where)))
    if condition is None or any(is_bytes(column) for column in schema.partition):
        return None
    found = dict(_equalities(condition.tree.unnest()))
    texts = [_stored_text(column, found.get(physical_name(column.name))) for column in schema.partition]
    return None if None in texts else tuple(text for text in texts if text is not None)


def _stored_text(column: Column, literal: exp.Literal | None) -> str | None:
    """Return the text of the stored value that equals the literal; None if SQL would convert one of the two first."""
    if literal is None:
        return None
    stored = arrow_type(column.type)
    if pa.types.is_integer(stored):
        return str(int(literal.name)) if literal.is_int else None
    return str(literal.name) if pa.types.is_string(stored) and literal.is_string else None


def _equalities(tree: exp.Expression) -> Iterator[tuple[str, exp.Literal]]:
    for conjunct in tree.flatten() if isinstance(tree, exp.And) else [tree]:
        equality = conjunct.unnest()
        if not isinstance(equality, exp.EQ):
            continue
        for column, value in ((equality.left, equality.right), (equality.right, equality.left)):
            if isinstance(column, exp.Column) and isinstance(value, exp.Literal):
                yield column.name, value
