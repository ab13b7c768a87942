"""A user's `--where`: one boolean expression over the view's columns, in DuckDB's dialect."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from cdc_views.errors import UnknownColumnError, UsageError
from cdc_views.naming import physical_name
from cdc_views.plan.expr import UserSql
from cdc_views.plan.names import view_key
from cdc_views.plan.texts import NumberTextError, advice
from cdc_views.schema import TableSchema
from cdc_views.types import Scalar, is_reshaped

_REFUSED = (exp.Query, exp.Subquery, exp.AggFunc, exp.Window, exp.Command, exp.Placeholder, exp.Parameter)


def parse_where(schema: TableSchema, text: str) -> UserSql:
    """Return the expression with the user's column names replaced by physical ones.

    A name matches exactly, or without regard to case where that is unambiguous. Raises `UsageError` for anything
    but one scalar expression (no queries, aggregates or windows), and for a number's text compared with a number;
    `UnknownColumnError` for an unknown name. `schema` has the types that views show.
    """
    try:
        trees = [tree for tree in sqlglot.parse(f"SELECT 1 WHERE ({text}\n)", read="duckdb") if tree is not None]
    except SqlglotError as error:
        raise UsageError(f"--where {text!r} is not a SQL expression: {_first_line(error)}") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Select) or set(_parts(trees[0])) != {"expressions", "where"}:
        raise UsageError(f'--where {text!r} is not one expression; give a single condition such as "amount > 10"')
    condition = trees[0].args["where"].this
    for refused in _REFUSED:
        if condition.find(refused) is not None:
            raise UsageError(f"--where {text!r} holds a {refused.__name__.lower()}; only an expression over one row works here")
    if told := advice(schema, condition):
        raise NumberTextError(f"--where {text!r}", told)
    return UserSql(condition.transform(lambda node: _resolved(schema, node)))


def on_partition(schema: TableSchema, where: UserSql) -> UserSql | None:
    """Return those of the condition's conjuncts that test partition columns alone, over stored columns; None without any.

    Every fact of a partition has its key, so a scan may drop facts by them. Only keys that views show as they are
    stored qualify.
    """
    as_stored = [c for c in schema.partition if isinstance(c.type, Scalar) and not is_reshaped(c.type)]
    plain = {view_key(c): physical_name(c.name) for c in as_stored}
    tree = where.tree.unnest()  # the parentheses that parsing put around it
    conjuncts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    kept = [c.copy() for c in conjuncts if {column.name for column in c.find_all(exp.Column)} <= plain.keys()]
    kept = [c for c in kept if c.find(exp.Column) is not None]
    if not kept:
        return None
    condition = exp.and_(*kept, copy=False)
    for column in condition.find_all(exp.Column):
        column.set("this", exp.to_identifier(plain[column.name], quoted=True))
    return UserSql(condition)


def _parts(select: exp.Select) -> list[str]:
    return [name for name, value in select.args.items() if value]


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _resolved(schema: TableSchema, node: exp.Expression) -> exp.Expression:
    if not isinstance(node, exp.Column):
        return node
    parts = [part.name for part in node.parts]
    column = schema.column(_find(schema, parts[0]))
    name = view_key(column) if column.is_key else physical_name(column.name)
    found: exp.Expression = exp.column(exp.to_identifier(name, quoted=True))
    for field in parts[1:]:  # col.field of a struct
        found = exp.Dot(this=found, expression=exp.to_identifier(field, quoted=True))
    return found


def _find(schema: TableSchema, name: str) -> str:
    if schema.has(name):
        return name
    folded = [c.name for c in schema.columns if c.name.casefold() == name.casefold()]
    if len(folded) == 1:
        return folded[0]
    raise UnknownColumnError(table=schema.full_name, column=name, known=[c.name for c in schema.columns])
