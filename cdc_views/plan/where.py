"""A user's condition over the view's columns, as an expression of a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from cdc_views.errors import UnknownColumnError, UsageError
from cdc_views.model.conditions import Condition
from cdc_views.model.naming import physical_name
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import INTEGER_BITS, Kind, Scalar, is_reshaped
from cdc_views.plan.expr import UserSql
from cdc_views.plan.names import view_key

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
_NUMBERS = frozenset({*INTEGER_BITS, Kind.FLOAT, Kind.DOUBLE})
_CASTS = {Kind.DECIMAL: "DECIMAL(38, 9)", Kind.VARINT: "DECIMAL(38, 0)"}
"""Kinds of unbounded numbers, and the type that holds most of them."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


class NumberTextError(UsageError):
    """A condition compares a number that is shown as text with a number; `advice` states what to write instead."""

    def __init__(self, where: str, advice: str) -> None:
        """Build the message; `where` names the option or test, with its text."""
        super().__init__(f"{where}: {advice}")
        self.advice = advice


def parse_where(schema: TableSchema, condition: Condition) -> UserSql:
    """Return the expression with the user's column names replaced by physical ones.

    A name matches exactly, or without regard to case if only one column matches. `schema` has the types that views show.
    Raises `UnknownColumnError`; `NumberTextError` for a comparison of a number that is shown as text with a number.
    """
    if told := advice(schema, condition.tree):
        raise NumberTextError(f"{condition.called} {condition.text!r}", told)
    return UserSql(condition.tree.transform(lambda node: _resolved(schema, node)))


def on_partition(schema: TableSchema, where: UserSql) -> UserSql | None:
    """Return the conjuncts that test only partition columns, over stored columns; None without any.

    Every fact has its partition's key, so a scan may drop facts by them. Only keys that views show as stored qualify.
    """
    as_stored = [c for c in schema.partition if isinstance(c.type, Scalar) and not is_reshaped(c.type)]
    plain = {view_key(c): physical_name(c.name) for c in as_stored}
    tree = where.tree.unnest()  # the parentheses that parsing put around it
    conjuncts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    used = [({column.name for column in c.find_all(exp.Column)}, c) for c in conjuncts]
    kept = [c.copy() for names, c in used if names and names <= plain.keys()]
    if not kept:
        return None
    condition = exp.and_(*kept, copy=False)
    for column in condition.find_all(exp.Column):
        column.set("this", exp.to_identifier(plain[column.name], quoted=True))
    return UserSql(condition)


def negated(where: UserSql) -> UserSql:
    """Return the condition that holds where `where` is false; null stays null."""
    return UserSql(exp.Not(this=exp.paren(where.tree.copy())))


def _resolved(schema: TableSchema, node: exp.Expression) -> exp.Expression:
    if not isinstance(node, exp.Column):
        return node
    parts = [part.name for part in node.parts]
    column = _found(schema, parts[0])
    if column is None:
        raise UnknownColumnError(table=schema.full_name, column=parts[0], known=[c.name for c in schema.columns])
    name = view_key(column) if column.is_key else physical_name(column.name)
    found: exp.Expression = exp.column(exp.to_identifier(name, quoted=True))
    for field in parts[1:]:  # col.field of a struct
        found = exp.Dot(this=found, expression=exp.to_identifier(field, quoted=True))
    return found


def _found(schema: TableSchema, name: str) -> Column | None:
    """The column of that name, or the only one whose name differs only in case."""
    folded = [c for c in schema.columns if c.name.casefold() == name.casefold()]
    same = [c for c in folded if c.name == name] or folded
    return same[0] if len(same) == 1 else None


def advice(schema: TableSchema, condition: exp.Expr) -> str:
    """Return what to write instead of a comparison of a number that is shown as text with a number; empty without one.

    Engines refuse it, or cast the text to the number's type: Spark to a whole number. `schema` has the types that views show
    (`Relation.shown`), `condition` the user's column names.
    """
    for texts, others in _sides(condition):
        for text in texts:
            column = _column(schema, text)
            wanted = _cast(column)
            if column is not None and wanted and any(other is text or _is_number(schema, other) for other in others):
                name = column.name
                name = name if _PLAIN.match(name) else exp.to_identifier(name, quoted=True).sql(dialect="duckdb")
                return f"{column.name} is shown as text, since its type has no precision; write CAST({name} AS {wanted})"
    return ""


def _sides(condition: exp.Expr) -> Iterator[tuple[list[exp.Expr], list[exp.Expr]]]:
    """Pairs of compared expressions; an operand of arithmetic counts as compared with itself."""
    for node in condition.walk():
        parts = [part.unnest() for part in node.iter_expressions()]
        if isinstance(node, _COMPUTED):
            yield from (([part], [part]) for part in parts)
        elif isinstance(node, _COMPARED):
            yield from ((parts[:1], parts[1:]), (parts[1:], parts[:1]))
        elif isinstance(node, exp.In | exp.Between):
            yield parts[:1], parts[1:]


def _cast(column: Column | None) -> str:
    """The type to which to cast a number that is shown as text; empty for anything else."""
    kind = column.type if column is not None else None
    return _CASTS.get(kind.kind, "") if isinstance(kind, Scalar) and kind.decimal_size is None else ""


def _is_number(schema: TableSchema, node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Cast):
        return node.to.this in exp.DataType.NUMERIC_TYPES
    column = _column(schema, node)
    kind = column.type if column is not None else None
    is_number = isinstance(kind, Scalar) and (kind.kind in _NUMBERS or kind.decimal_size is not None)
    return is_number or isinstance(node, _COMPUTED)


def _column(schema: TableSchema, node: exp.Expr) -> Column | None:
    if not isinstance(node, exp.Column) or len(node.parts) > 1:
        return None
    return _found(schema, node.name)
