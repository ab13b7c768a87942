"""A user's condition over the view's columns, as an expression of a plan."""

from __future__ import annotations

from sqlglot import exp

from cdc_views.errors import UnknownColumnError
from cdc_views.model.conditions import Condition
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import TableSchema
from cdc_views.model.types import Scalar, is_reshaped
from cdc_views.plan.expr import UserSql
from cdc_views.plan.names import view_key
from cdc_views.plan.texts import NumberTextError, advice


def parse_where(schema: TableSchema, condition: Condition) -> UserSql:
    """Return the expression with the user's column names replaced by physical ones.

    A name matches exactly, or without regard to case where that is unambiguous. `schema` has the types that views show.

    Raises:
        UnknownColumnError: An unknown name.
        NumberTextError: It compares a number's text with a number.
    """
    if told := advice(schema, condition.tree):
        raise NumberTextError(f"{condition.called} {condition.text!r}", told)
    return UserSql(condition.tree.transform(lambda node: _resolved(schema, node)))


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
