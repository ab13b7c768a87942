"""Pieces of SQL that every dialect writes alike."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from cdc_views.errors import UnsupportedError
from cdc_views.sql.dialects.keywords import KEYWORDS

Sql = exp.Expr

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*\Z")


def identifier(name: str) -> exp.Identifier:
    """Return an identifier, quoted unless every engine reads the bare name as this name; the printer escapes it.

    Raises `UnsupportedError` for a NUL, where some engines cut SQL.
    """
    if "\0" in name:
        raise UnsupportedError(f"the name {name!r} holds a NUL, which no SQL engine takes", remedy="rename it at the source")
    return exp.Identifier(this=name, quoted=_PLAIN.match(name) is None or name in KEYWORDS)


def function(name: str, *args: Sql) -> exp.Anonymous:
    """Return a call that is printed as it is; sqlglot would translate the functions that it knows."""
    return exp.Anonymous(this=name, expressions=list(args))


def text(value: str) -> Sql:
    """Return a text as a constant."""
    return exp.Literal.string(value)


def only_if(condition: Sql, value: Sql, otherwise: Sql | None = None) -> Sql:
    """Return `CASE WHEN condition THEN value ELSE otherwise END`."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)], default=otherwise)


def is_present(value: Sql) -> Sql:
    """Return `value IS NOT NULL`."""
    return exp.Is(this=value, expression=exp.Not(this=exp.Null()))


def descending(value: Sql) -> exp.Ordered:
    """Return `value DESC NULLS LAST`."""
    return exp.Ordered(this=value, desc=True, nulls_first=False)


EACH = "_each"
"""What SQL calls the element that a lambda or a subquery over an array looks at."""


def each_element() -> Sql:
    """Return the element."""
    return exp.column(identifier(EACH))


def lambda_of(body: Callable[[Sql], Sql]) -> Sql:
    """Return `_each -> body`."""
    return exp.Lambda(this=body(each_element()), expressions=[identifier(EACH)])


def number(value: int) -> Sql:
    """Return an integer as SQL; the least 64-bit integer is a difference, because most dialects have no literal for it."""
    if value == -(1 << 63):
        return exp.paren(exp.Sub(this=number(value + 1), expression=exp.Literal.number(1)))
    return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)
