"""Views of tables so wide that one view's text would be too long: parts of some columns each, and a view that joins them.

A row of a table without static columns shows if its marker or any cell is live (rule W2), and each column has its own winner
(C2). So the table is the outer join, by the key, of parts with some of its columns each: a part holds the marker, the deletions
and its own columns, and lists the row if one of these is live.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from cdc_views.errors import UnsupportedError
from cdc_views.model.schema import Role
from cdc_views.plan import names
from cdc_views.plan.build import Ask, Tells, of_raw, output_names
from cdc_views.sql import outputs_sql
from cdc_views.storage.relation import Relation
from cdc_views.storage.shown_relation import ShownRelation
from cdc_views_bigquery.types import quoted

COLUMNS = 200
"""Columns of a part: about 170 K characters if they are scalars, of the 256 K that a view may have."""


def parts_of(relation: Relation) -> list[Relation]:
    """Return the table cut into parts; raises `UnsupportedError` if its parts do not amount to it."""
    schema = relation.schema
    if schema.statics:
        raise UnsupportedError(
            f"the view of {schema.full_name} is too long for BigQuery, and one with static columns cannot be cut into parts",
            remedy="materialize the table and read its serving table, or leave columns out of the schema file",
        )
    regulars = [column for column in schema.columns if column.role is Role.REGULAR]
    return [_cut(relation, {c.name for c in regulars[at : at + COLUMNS]}) for at in range(0, len(regulars), COLUMNS)]


def _cut(relation: Relation, wanted: set[str]) -> Relation:
    columns = tuple(c for c in relation.schema.columns if c.is_key or c.name in wanted)
    dropped = tuple(d for d in relation.schema.dropped if d.name in wanted)
    schema = replace(relation.schema, columns=columns, dropped=dropped)
    if isinstance(relation, ShownRelation):
        kept = {column.name for column in columns}
        return replace(relation, schema=schema, casts=tuple(c for c in relation.casts if c[0] in kept))
    return replace(relation, schema=schema)


@lru_cache(maxsize=8)
def part_query(part: Relation, *, table: str, dialect_name: str, strategy: str) -> str:
    """Return the SELECT of a part: user names, then the row's identity; cached, because `plan` asks for each twice."""
    keys = dict.fromkeys(names.identity(column) for column in part.schema.row_key)
    more = [(_id(number), name) for number, name in enumerate(keys)]
    ask = of_raw(Ask(part, tells=Tells.IDENTITY))
    return outputs_sql(ask, dialect_name=dialect_name, strategy=strategy, table=table, more=more)


def whole_query(relation: Relation, parts: list[Relation], views: list[str]) -> str:
    """Return the SELECT that joins the views of the parts."""
    keys = range(len(dict.fromkeys(names.identity(column) for column in relation.schema.row_key)))
    partition = len(dict.fromkeys(names.identity(column) for column in relation.schema.partition))
    listed = ", ".join(quoted(_id(i)) for i in keys)
    union = " UNION DISTINCT ".join(f"SELECT {listed} FROM {quoted(view)}" for view in views)
    shown = []
    of_part = {column.name: n for n, part in enumerate(parts) for column in part.schema.columns if not column.is_key}
    for name, _ in output_names(Ask(relation)):
        column = quoted(name)
        if name in of_part:
            shown.append(f"p{of_part[name]}.{column}")
        else:
            shown.append(f"COALESCE({', '.join(f'p{n}.{column}' for n in range(len(parts)))}) AS {column}")
    joins = "".join(f" LEFT JOIN {quoted(view)} AS p{n} ON {_matching(n, keys, partition)}" for n, view in enumerate(views))
    return f"WITH `_keys` AS ({union}) SELECT {', '.join(shown)} FROM `_keys` AS k{joins}"


def _matching(part: int, keys: range, partition: int) -> str:
    """Partition columns are never null; a clustering column is null if its value has 0 bytes."""
    sides = [(f"k.{quoted(_id(i))}", f"p{part}.{quoted(_id(i))}") for i in keys]
    plain = [f"{ours} = {theirs}" for ours, theirs in sides[:partition]]
    return " AND ".join(plain + [f"{ours} IS NOT DISTINCT FROM {theirs}" for ours, theirs in sides[partition:]])


def _id(number: int) -> str:
    return f"_cdc_key_{number}"
