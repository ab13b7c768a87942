"""Numbers that a view shows as text, where a condition compares them with numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from cdc_views.errors import UsageError
from cdc_views.model.schema import Column, TableSchema
from cdc_views.model.types import INTEGER_BITS, Kind, Scalar

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
_NUMBERS = frozenset({*INTEGER_BITS, Kind.FLOAT, Kind.DOUBLE})
_CASTS = {Kind.DECIMAL: "DECIMAL(38, 9)", Kind.VARINT: "DECIMAL(38, 0)"}
"""Kinds of numbers without a bound, and the type that holds most of them."""
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


class NumberTextError(UsageError):
    """A condition compares a number that is shown as text with a number; `advice` says what to write."""

    def __init__(self, where: str, advice: str) -> None:
        """Say it of `where`, the option or test and its text."""
        super().__init__(f"{where}: {advice}")
        self.advice = advice


def advice(schema: TableSchema, condition: exp.Expr) -> str:
    """Return what to write instead of a comparison of a number's text with a number; empty where there is none.

    Engines refuse it, or cast the text to whatever the number is: Spark to a whole number. `schema` has the types that
    views show (`Relation.shown`), `condition` the user's column names.
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
    """What is compared, and with what; what is computed with is one with itself."""
    for node in condition.walk():
        parts = [part.unnest() for part in node.iter_expressions()]
        if isinstance(node, _COMPUTED):
            yield from (([part], [part]) for part in parts)
        elif isinstance(node, _COMPARED):
            yield from ((parts[:1], parts[1:]), (parts[1:], parts[:1]))
        elif isinstance(node, exp.In | exp.Between):
            yield parts[:1], parts[1:]


def _cast(column: Column | None) -> str:
    """The cast of a column shown as text though it is a number; empty for anything else."""
    kind = None if column is None else _scalar(column)
    return _CASTS.get(kind.kind, "") if kind is not None and kind.decimal_size is None else ""


def _is_number(schema: TableSchema, node: exp.Expr) -> bool:
    if isinstance(node, exp.Literal):
        return not node.is_string
    if isinstance(node, exp.Cast):
        return node.to.this in exp.DataType.NUMERIC_TYPES
    column = _column(schema, node)
    kind = None if column is None else _scalar(column)
    return isinstance(node, _COMPUTED) or (kind is not None and (kind.kind in _NUMBERS or kind.decimal_size is not None))


def _scalar(column: Column) -> Scalar | None:
    return column.type if isinstance(column.type, Scalar) else None


def _column(schema: TableSchema, node: exp.Expr) -> Column | None:
    if not isinstance(node, exp.Column) or len(node.parts) > 1:
        return None
    same = [c for c in schema.columns if c.name == node.name] or [
        c for c in schema.columns if c.name.casefold() == node.name.casefold()
    ]
    return same[0] if len(same) == 1 else None
